"""Whether RL widens what a policy can do: pass@k before and after.

  python -m experiments.studies.ceiling [--quick] [--workdir=DIR] [--seeds=N]

The quickstart's warm start (the base) and what DAPO makes of it, on the same
held-out tasks, with the same tools, prompts, limits, temperature and number of
samples a task; then a toy policy whose right answer to half of the problems is
one that it gives with a chance of 1e-3. Told are pass@k for k up to half of the
samples, from which k on the base is not behind, which tasks only one of the two
solves at all, and how likely the trained policy's right episodes are under the
base. Trains the two where they are missing, prints a JSON object a line and
rewrites experiments/results/ceiling.md and ceiling.png.
"""

import json
import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from arl import episode
from arl.evaluate import ceiling, estimators, intervals
from arl.report import passes
from arl.rollout import engine as engine_lib
from arl.train import build, evaluation
from experiments import quickstart as config_lib
from experiments.studies import ceiling_toy, quickstart, runs, summary

HEADER = (
  'policy', 'pass@1', 'pass@{most}', 'solved by both', 'only by the base',
  'only trained', 'by none', 'crossing k',
)  # fmt: skip
_SHOWN_PATH = (evaluation.FINAL,)


def sampled(
  model: pathlib.Path, tasks: int, samples: int, first: int
) -> dict[str, Any]:
  """Samples of a model on held-out tasks: counts, and one right episode each.

  Returns:
    `counts`, (graded, solved) of each task; `right`, of each task the tokens
    and the mask of its first right episode, or None.
  """
  world = build.world(config_lib.get_config(f'model={model}'))
  problems = evaluation.held_out(world, first, tasks)
  played = evaluation.run(
    world, problems, engine_lib.Sampling(1.0), _SHOWN_PATH, samples
  )
  right: dict[str, Any] = {}
  for one in played:
    if episode.graded(one) and episode.total_reward(one) >= episode.SOLVED:
      kept = {'tokens': one.tokens.tolist(), 'mask': one.mask.tolist()}
      right.setdefault(one.task.id, kept)
  return {
    'counts': estimators.counts_by_task(played, episode.SOLVED),
    'right': [right.get(task.id) for task in problems],
  }


def likelihood(
  model: pathlib.Path, said: Sequence[dict[str, Any]]
) -> list[tuple[float, int]]:
  """(log-prob, tokens) of what was sampled in episodes, under a model."""
  world = build.world(config_lib.get_config(f'model={model}'))
  scores = world.engine.score([one['tokens'] for one in said], 1.0)
  return [
    (float(np.sum(score[np.array(one['mask'])])), sum(one['mask']))
    for score, one in zip(scores, said)
  ]


def measured(
  root: pathlib.Path, seed: int, tasks: int, samples: int, quick: bool
) -> dict[str, Any]:
  """Base and trained policy of a seed, sampled; kept once they are there."""
  path = root / f'ceiling_seed{seed}_{tasks}x{samples}.json'
  if not path.exists():
    base = quickstart.warm_start(root, seed, quick).workdir / 'final'
    tuned = quickstart.trained(root, 'dapo', seed, quick).workdir / 'final'
    first = config_lib.get_config().eval.tasks
    made = {
      name: sampled(model, tasks, samples, first)
      for name, model in (('base', base), ('trained', tuned))
    }
    right = [one for one in made['trained'].pop('right') if one]
    made['base'].pop('right')
    if right:
      made['of_base'] = likelihood(base, right)
      made['of_trained'] = likelihood(tuned, right)
    path.write_text(json.dumps(made), encoding='utf-8')
  return json.loads(path.read_text(encoding='utf-8'))


def pooled(found: Sequence[dict[str, Any]], name: str) -> list:
  """What all seeds have under a name, in their order."""
  return [each for one in found for each in one[name]['counts']]


def likely(
  found: Sequence[dict[str, Any]], samples: int, seeds: Sequence[int]
) -> str:
  """Prints how likely right episodes are; a sentence for the table."""
  of_base, of_trained = (
    np.array([pair for one in found for pair in one.get(name, [])], float)
    for name in ('of_base', 'of_trained')
  )
  if not of_base.size:
    return 'The trained policy solved no task.'
  nats = {}
  for name, pairs in (('base', of_base), ('trained', of_trained)):
    each = -pairs[:, 0] / pairs[:, 1]
    low, high = intervals.bootstrap_mean(each, seed=0)
    nats[name] = float(each.mean())
    runs.line(
      f'ceiling/right/{name}', nats[name], 'nats a token', '', seeds,
      [round(low, 4), round(high, 4)],
    )  # fmt: skip
  rare = float(np.mean(of_base[:, 0] < -math.log(samples)))
  runs.line('ceiling/right/rare', rare, 'share', '', seeds, None)
  return (
    f'One right episode a task of the trained policy has a perplexity of'
    f' {math.exp(nats["base"]):.3f} a token under the base and'
    f' {math.exp(nats["trained"]):.3f} under the trained policy itself;'
    f' {rare:.0%} of them have under the base a chance below 1 in {samples}.'
  )


def told(
  name: str, base: np.ndarray, trained: np.ndarray, ks: Sequence[int], seeds
) -> tuple[dict[str, passes.Curve], str]:
  """Prints curves and their crossing; the curves, and the crossing as text."""
  made = {}
  for who, values in (('base', base), ('trained', trained)):
    ends = [intervals.bootstrap_mean(column, seed=0) for column in values.T]
    for k, column, end in zip(ks, values.T, ends):
      interval = [round(x, 4) for x in end]
      runs.line(
        f'ceiling/{name}/{who}/pass@{k}', column.mean(), 'rate', '', seeds,
        interval,
      )  # fmt: skip
    low, high = zip(*ends)
    made[who] = passes.Curve(ks, values.mean(0).tolist(), low, high)
  gain = ceiling.gains(base, trained, seed=0)
  for i, k in ((0, ks[0]), (-1, ks[-1])):
    mean, low, high = gain[:, i]
    line = f'ceiling/{name}/gain@{k}'
    runs.line(line, mean, 'rate', '', seeds, [round(low, 4), round(high, 4)])
  at = ceiling.crossing(base.mean(0), trained.mean(0), ks)
  ends = ceiling.crossing_interval(base, trained, ks, seed=0, draws=2000)
  shown = [_at(x, ks) for x in (at, *ends)]
  number = None if math.isinf(at) else at
  runs.line(f'ceiling/{name}/crossing', number, 'k', '', seeds, shown[1:])
  return made, f'{shown[0]} ({shown[1]} to {shown[2]})'


def _at(k: float, ks: Sequence[int]) -> str:
  return f'> {ks[-1]}' if math.isinf(k) else f'{k:.0f}'


def agent(root: pathlib.Path, quick: bool, seeds: Sequence[int]):
  """The quickstart: its curves, its row of the table and a sentence."""
  tasks, samples = (8, 16) if quick else (64, 64)
  runs.make([quickstart.warm_start(root, seed, quick) for seed in seeds])
  runs.make([quickstart.trained(root, 'dapo', seed, quick) for seed in seeds])
  found = [measured(root, seed, tasks, samples, quick) for seed in seeds]
  base, trained = (pooled(found, name) for name in ('base', 'trained'))
  ks = ceiling.powers(base)
  one, other = (ceiling.table(counts, ks) for counts in (base, trained))
  curves, at = told('quickstart', one, other, ks, seeds)
  covered = ceiling.coverage(base, trained)
  for name, count in covered._asdict().items():
    runs.line(f'ceiling/coverage/{name}', count, 'tasks', '', seeds, None)
  rows = [
    ['base', *_ends(one), *map(str, covered), at],
    ['trained', *_ends(other), '', '', '', '', ''],
  ]
  rows[0][3:7] = [
    str(covered.both), str(covered.base_only), str(covered.trained_only),
    str(covered.neither),
  ]  # fmt: skip
  claim = (
    f'In this set-up RL raised pass@1 by {(other - one)[:, 0].mean():+.3f} and'
    f' changed pass@{ks[-1]} by {(other - one)[:, -1].mean():+.3f}.'
  )
  return curves, rows, f'{claim} {likely(found, samples, seeds)}', ks


def _ends(values: np.ndarray) -> list[str]:
  return [
    runs.spread(float(x.mean()), intervals.bootstrap_mean(x, seed=0))
    for x in (values[:, 0], values[:, -1])
  ]


def toy(quick: bool, seeds: Sequence[int]):
  """The toy, exact but for what was sampled in training."""
  ks = [2**i for i in range(13)]
  start = np.array(ceiling_toy.START)
  steps = 20 if quick else ceiling_toy.STEPS
  ends = [ceiling_toy.after(seed, steps) for seed in seeds]
  base = [ceiling_toy.pass_at(start, k) for k in ks]
  each = np.array([[ceiling_toy.pass_at(x, k) for k in ks] for x in ends])
  trained = each.mean(axis=0)
  for k, before, after in zip(ks, base, trained):
    for who, value in (('base', before), ('trained', after)):
      runs.line(f'ceiling/toy/{who}/pass@{k}', value, 'rate', '', seeds, None)
  at = ceiling.crossing(np.array(base), trained, ks)
  number = None if math.isinf(at) else at
  runs.line('ceiling/toy/crossing', number, 'k', '', seeds, None)
  chance = float(np.mean([x[1] for x in ends]))
  runs.line('ceiling/toy/rare', chance, 'probability', '', seeds, None)
  text = (
    f'In the toy RL raised pass@1 from {base[0]:.3f} to {trained[0]:.3f} and'
    f' lowered pass@{ks[-1]} from {base[-1]:.3f} to {trained[-1]:.3f}; the'
    f' base is not behind from k = {_at(at, ks)} on, and the answer that it'
    f' gives with a chance of {ceiling_toy.RARE:g} is left with {chance:.2g}.'
  )
  if trained[-1] >= base[-1]:
    text = text.replace('lowered', 'changed')
  made = {
    'base': passes.Curve(ks, base),
    'trained': passes.Curve(ks, trained.tolist(), each.min(0), each.max(0)),
  }
  return made, text


def main(argv: list[str]) -> None:
  del argv
  quick, seeds = runs.quick(), runs.seeds()
  curves, rows, text, ks = agent(runs.root(), quick, seeds)
  of_toy, toy_text = toy(quick, seeds)
  if quick:
    return
  header = [name.format(most=ks[-1]) for name in HEADER]
  path = runs.RESULTS / 'ceiling.md'
  runs.write_table(path, header, rows)
  with path.open('a', encoding='utf-8') as file:
    file.write(f'\n{text}\n\n{toy_text}\n\nSeeds: {list(seeds)}.\n')
  passes.draw(
    {'quickstart, held-out tasks': curves, 'toy, exact': of_toy},
    runs.RESULTS / 'ceiling.png',
  )
  summary.write()


if __name__ == '__main__':
  runs.start(main)
