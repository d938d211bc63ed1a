"""What preferences among a policy's own episodes teach it.

  python -m experiments.studies.preferences [--quick] [--workdir=DIR]

From the warm starts of experiments.studies.quickstart, 20 batches of 128
episodes by each method of experiments/preferences.py, and by DAPO on the same
episodes' rewards to compare with. Beside success: how often a policy puts the
better of two held-out episodes first, both sampled by the warm start, of tasks
that no run has trained on. By the implicit reward, which is the log-prob of the
episode less that under the warm start, and by the mean log-prob of its tokens.
Prints a JSON object a line and rewrites experiments/results/preferences.md and
preferences.png.
"""

import functools
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from arl import episode
from arl.prompts import pairs
from arl.report import curves
from arl.train import build, evaluation
from experiments import preferences
from experiments.studies import methods, quickstart, runs, summary

REWARDS, QUICK = 'rewards', ('dpo', 'simpo')
DRAWN = (REWARDS, 'dpo', 'step_dpo', 'ipo', 'simpo', 'orpo')
SAMPLES, FIRST = 8, 3000  # of a task; the first held-out task of the pairs
HEADER = (
  'method', 'function', 'warm start', 'success', 'gain', 'implicit reward',
  'likelihood', 'its warm start', 'tokens of an episode', 'seconds',
)  # fmt: skip


def preferred(
  root: pathlib.Path, method: str, seed: int, quick: bool
) -> runs.Run:
  """The run of a method from the warm start of a seed."""
  start = quickstart.warm_start(root, seed, quick).workdir / 'final'
  few = methods.small('dapo', quick)
  if method == 'spin' and not quick:  # of two episodes a task
    few = (*few, f'--config.prompts.batch={methods.EPISODES // 2}')
  return runs.Run(
    'launch.train',
    f'experiments/preferences.py:model={start},method={method}'
    + ',quick' * quick,
    root / 'preferences' / f'{method}_seed{seed}',
    (f'--config.seed={seed}', *few),
  )


def rewarded(root: pathlib.Path, seed: int, quick: bool) -> runs.Run:
  """DAPO from the warm start of a seed."""
  made = methods.trained(root, 'dapo', seed, quick)
  return made._replace(workdir=root / 'preferences' / f'{REWARDS}_seed{seed}')


def _scores(
  world: build.World, episodes: Sequence[episode.Episode]
) -> list[np.ndarray]:
  """The log-probs of what the policy said in each episode."""
  made = world.engine.score([e.tokens.tolist() for e in episodes], 1.0)
  return [x[e.mask] for x, e in zip(made, episodes)]


def _share(better: Sequence[float], worse: Sequence[float]) -> float:
  """How often the one is above the other; a tie counts half."""
  gap = np.subtract(better, worse)
  return float(np.mean((gap > 0) + 0.5 * (gap == 0)))


def accuracy(run: runs.Run, start: runs.Run, quick: bool) -> dict[str, float]:
  """The shares of held-out pairs that a policy has in their order.

  Returns:
    'implicit', by the implicit reward, 'likelihood' and, of the warm start,
    'likelihood_before'; and the number of 'pairs'.
  """
  before, after = (
    build.world(preferences.get_config(f'model={one.workdir}/final'))
    for one in (start, run)
  )
  episodes = evaluation.run(
    before,
    evaluation.held_out(before, FIRST, 16 if quick else methods.TASKS),
    evaluation.variants(1.0)['sampled'],
    (evaluation.FINAL,),
    SAMPLES,
  )
  found = pairs.best_against_worst(episode.groups(episodes))
  told = [one for group in found for one in group.episodes]
  old, new = _scores(before, told), _scores(after, told)
  share = lambda x: _share(x[::2], x[1::2])
  return {
    'implicit': share([n.sum() - o.sum() for n, o in zip(new, old)]),
    'likelihood': share([n.mean() for n in new]),
    'likelihood_before': share([o.mean() for o in old]),
    'pairs': len(found),
  }


def measure(
  method: str, row: Sequence[runs.Run], starts: Sequence[runs.Run], quick: bool
) -> list[str]:
  """Prints what a method reached; the cells of its row."""
  results = [runs.result(run) for run in row]
  function = preferences.PREFERRED.get(method, {'name': 'grpo.dapo'})['name']
  name, cells = f'preferences/{method}', [method, function]
  before, after = (
    runs.over_seeds(results, when, 'sampled') for when in ('before', 'after')
  )
  gains = [b - a for a, b in zip(before, after)]
  told = [
    runs.kept(run, 'accuracy', functools.partial(accuracy, run, start, quick))
    for run, start in zip(row, starts)
  ]
  tokens = [runs.rows(run)[-1]['train/tokens'] for run in row]
  for what, values, unit, aim in (
    ('before', before, 'success rate', ''),
    ('success', after, 'success rate', ''),
    ('gain', gains, 'success rate', '> 0'),
    ('implicit', [x['implicit'] for x in told], 'of pairs', '> 0.5'),
    ('likelihood', [x['likelihood'] for x in told], 'of pairs', ''),
    (
      'likelihood_before',
      [x['likelihood_before'] for x in told],
      'of pairs',
      '',
    ),
    ('tokens', tokens, 'of an episode', ''),
  ):
    cells.append(runs.cell(f'{name}/{what}', values, unit, aim))
  seconds = sum(r['wall_seconds'] for r in results) / len(results)
  runs.line(f'{name}/wall', seconds, 'seconds', '', runs.seeds(), None)
  return [*cells, f'{seconds:.0f}']


def main(argv: list[str]) -> None:
  del argv
  quick, seeds, root = runs.quick(), runs.seeds(), runs.root()
  starts = [quickstart.warm_start(root, seed, quick) for seed in seeds]
  runs.make(starts)
  table = {REWARDS: [rewarded(root, seed, quick) for seed in seeds]}
  for method in QUICK if quick else preferences.PREFERRED:
    table[method] = [preferred(root, method, seed, quick) for seed in seeds]
  runs.make([run for column in zip(*table.values()) for run in column])
  body = [measure(name, row, starts, quick) for name, row in table.items()]
  if quick:
    return
  runs.write_table(runs.RESULTS / 'preferences.md', HEADER, body, seeds)
  draw({name: [runs.rows(run) for run in table[name]] for name in DRAWN})
  summary.write()


def draw(rows: Mapping[str, Sequence[curves.Rows]]) -> None:
  """Draws success by batches."""
  curves.compare(rows, 'train/success', runs.RESULTS / 'preferences.png')


if __name__ == '__main__':
  runs.start(main)
