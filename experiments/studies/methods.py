"""Every recipe on one task, from the same warm starts, in at most 60 updates.

  python -m experiments.studies.methods [--quick] [--workdir=DIR]

Trains the warm starts of experiments.studies.quickstart and from each of them
every method of experiments/recipes.py, 20 batches of 128 episodes, where
results are missing. Prints a JSON object a line and rewrites
experiments/METHODS.md and experiments/results/methods.png.
"""

import json
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from arl.evaluate import intervals
from arl.report import bars
from experiments import recipes
from experiments.baselines import budget
from experiments.studies import quickstart, runs

PAGE = runs.RESULTS.parent / 'METHODS.md'
EPISODES, TASKS = budget.EPISODES, budget.TASKS
# What keeps the policy from collapsing onto one response also has pass@k.
DIVERSE = (
  'grpo', 'dapo', 'ucpo', 'eapo', 'signbalance', 'pass_at_k',
  'pass_at_k_scaled', 'nsr',
)  # fmt: skip
SAMPLES, PROBLEMS = 8, 64
QUICK = ('dapo', 'ucpo', 'kimi_omd')
HEADER = (
  'method', 'function', 'updates', 'warm start', 'success', 'gain', 'pass@8',
  'unused groups', 'seconds',
)  # fmt: skip
_TEXT = """# Methods on one task

Generated: `python -m experiments.studies.methods`.

Held-out success of the quickstart's tool task, sampled at temperature 1 on 256
fresh tasks, from the same warm starts of seeds 0, 1 and 2, after 20 batches of
128 episodes: the interquartile mean over seeds and its 95 % interval, by
drawing seeds and tasks with return. The gain is over the warm start in the same
runs. pass@8 is estimated from 8 samples of 64 tasks, for the methods that are
about diversity and two to compare with. Unused groups are the share of the
sampled groups that no update saw, because the method's selection left them out.
Hyperparameters are those of experiments/recipes.py. None was searched for; the
weights of three critics, and the lambda of one, were changed after a first run
of this table in which the critic's loss spoiled the trunk that it shares with
the policy. Seconds are those of a run that shares two cores with another.

Rollouts here are fresh and the sampler is exact, so that a correction for
either is 1 up to rounding: those methods repeat the digits of their base. What
they do where it matters is in [RESULTS.md](RESULTS.md).
"""
Counts = Sequence[tuple[int, int]]


def small(method: str, quick: bool) -> tuple[str, ...]:
  """The overrides that make a run of the quickstart one of this study."""
  if quick:
    return ()
  samples = recipes.settings(method).get('prompts.samples', 8)
  settings = {**budget.SETTINGS, 'prompts.batch': EPISODES // samples}
  return tuple(f'--config.{key}={value}' for key, value in settings.items())


def trained(
  root: pathlib.Path,
  method: str,
  seed: int,
  quick: bool,
  name: str = '',
  overrides: Sequence[str] = (),
) -> runs.Run:
  """The run of a method from the warm start of a seed.

  Args:
    root: of all runs.
    method: of experiments/recipes.py.
    seed: of the run and its warm start.
    quick: whether it is a smoke run.
    name: of a variant, which has a folder of its own.
    overrides: further flags of the variant.
  """
  base = quickstart.trained(root, method, seed, quick)
  return base._replace(
    workdir=root / 'small' / f'{name or method}_seed{seed}',
    overrides=(*base.overrides, *small(method, quick), *overrides),
  )


def counts(
  results: Sequence[Mapping[str, Any]], when: str, how: str = 'sampled'
) -> list[tuple[int, int]]:
  """(graded, solved) of each run's held-out tasks."""
  found = [result[when][how] for result in results]
  return [(r['graded'], round(r['success'] * r['graded'])) for r in found]


def success(at: Counts) -> tuple[float, list[float]]:
  """The interquartile mean over runs and its interval."""
  middle = intervals.interquartile_mean([solved / n for n, solved in at])
  low, high = intervals.bootstrap_rates(at, seed=0)
  return middle, [round(low, 4), round(high, 4)]


def gain(before: Counts, after: Counts) -> tuple[float, list[float]]:
  """As `success`, of the difference in the same runs."""
  differences = [b / m - a / n for (n, a), (m, b) in zip(before, after)]
  low, high = intervals.bootstrap_gain(before, after, seed=0)
  middle = intervals.interquartile_mean(differences)
  return middle, [round(low, 4), round(high, 4)]


def pass_at(run: runs.Run, quick: bool) -> float:
  """pass@SAMPLES of a run's policy, evaluated once."""
  path = run.workdir / 'pass_at.json'
  if not path.exists():
    subprocess.run(
      [
        sys.executable, '-m', 'launch.evaluate',
        f'--config=experiments/quickstart.py:model={run.workdir}/final',
        f'--samples={SAMPLES}', f'--tasks={4 if quick else PROBLEMS}',
        f'--output={path}',
      ],
      check=True,
      capture_output=True,
    )  # fmt: skip
  return json.loads(path.read_text())['pass_at'][str(SAMPLES)]['success']


def measure(method: str, row: Sequence[runs.Run], quick: bool) -> list[str]:
  """Prints what a method reached; the cells of its row."""
  results = [runs.result(run) for run in row]
  seeds, before = runs.seeds(), counts(results, 'before')
  after = counts(results, 'after')
  cells = [method, recipes.METHODS[method]['name']]
  updates = [runs.rows(run)[-1]['train/updates'] for run in row]
  cells.append(f'{max(updates):.0f}')
  for name, (value, interval), aim in (
    ('warm_start', success(before), '<= 0.5'),
    ('success', success(after), ''),
    ('gain', gain(before, after), '> 0'),
  ):
    runs.line(
      f'methods/{method}/{name}', value, 'success rate', aim, seeds, interval
    )
    cells.append(f'{value:.3f} ({interval[0]:.3f} to {interval[1]:.3f})')
  cells.append('')
  if method in DIVERSE:
    value = intervals.interquartile_mean([pass_at(r, quick) for r in row])
    runs.line(f'methods/{method}/pass_at_8', value, 'rate', '', seeds, None)
    cells[-1] = f'{value:.3f}'
  used = [r['train/groups_used'] for run in row for r in runs.rows(run)]
  unused = 1 - sum(used) / len(used)
  runs.line(f'methods/{method}/unused', unused, 'of groups', '', seeds, None)
  seconds = sum(r['wall_seconds'] for r in results) / len(results)
  runs.line(f'methods/{method}/wall', seconds, 'seconds', '', seeds, None)
  return [*cells, f'{unused:.2f}', f'{seconds:.0f}']


def main(argv: list[str]) -> None:
  del argv
  quick, seeds, root = runs.quick(), runs.seeds(), runs.root()
  runs.make([quickstart.warm_start(root, seed, quick) for seed in seeds])
  table = {
    method: [trained(root, method, seed, quick) for seed in seeds]
    for method in recipes.METHODS
    if not quick or method in QUICK
  }
  runs.make([run for row in table.values() for run in row])
  waiting = [m for m, row in table.items() if not all(map(runs.finished, row))]
  table = {m: row for m, row in table.items() if m not in waiting}
  body = [measure(method, row, quick) for method, row in table.items()]
  if quick:
    return
  rest = f'\nNot run yet: {", ".join(waiting)}.\n' if waiting else ''
  text = f'{_TEXT}\n{runs.markdown(HEADER, body)}{rest}'
  PAGE.write_text(text, encoding='utf-8')
  draw(table)


def draw(table: Mapping[str, Sequence[runs.Run]]) -> None:
  """Bars of what every method reached; the line is the warm starts."""
  made, warm = [], 0.0
  for method, row in table.items():
    results = [runs.result(run) for run in row]
    made.append(bars.Bar(method, *success(counts(results, 'after'))))
    warm, _ = success(counts(results, 'before'))
  bars.bars(
    sorted(made, key=lambda bar: bar.value or 0),
    title='Held-out success, sampled; dashed: before training',
    unit='success rate',
    reference=warm,
    path=runs.RESULTS / 'methods.png',
  )


if __name__ == '__main__':
  runs.start(main)
