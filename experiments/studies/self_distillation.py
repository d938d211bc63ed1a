"""What a policy makes of its own word, told more: is checking trained away?

  python -m experiments.studies.self_distillation [--quick] [--workdir=DIR]

The warm start of experiments/self_distill_sft.py reads hints, and answers at
once when it is told the answer. From it 20 batches of 128 episodes in each way
of experiments/self_distill.py to be told more, and from rewards alone. To check
is to call a tool, and not to guess: by how many tokens, in how many episodes,
and what the policy, told more, finds of those tokens and of all others. Prints
a JSON object a line and rewrites experiments/results/self_distillation.md and
self_distillation.png.
"""

import pathlib
from collections.abc import Sequence

import numpy as np

from arl import names
from arl.report import curves
from arl.rollout import reconsidering
from arl.train import build
from experiments import self_distill
from experiments.studies import distillation, methods, runs, summary

# How the policy is told more, and by which method it then learns.
TOLD = {
  'told the answer': 'told=answer,method=privileged',
  'told the answer, checks spared': 'told=answer,method=guarded',
  'told the steps': 'told=steps,method=privileged',
  'told what succeeded': 'told=success,method=privileged',
  'rewards, told what succeeded': 'told=success,method=seed',
}
# Ways to be told more, whatever is then made of it.
WAYS = ('told the answer', 'told the steps', 'told what succeeded')
QUICK = ('told the answer, checks spared',)
REWARDS = 'rewards'
HEADER = (
  'form', 'told', 'success', 'episodes that check', 'checking tokens',
  'gap on checks', 'gap elsewhere',
)  # fmt: skip


def hinted_start(root: pathlib.Path, seed: int, quick: bool) -> runs.Run:
  """A warm start that reads hints."""
  return runs.Run(
    'launch.sft',
    'experiments/self_distill_sft.py:' + 'quick' * quick,
    root / 'distillation' / f'hinted_sft_seed{seed}',
    (f'--config.seed={seed}',),
  )


def trained(root: pathlib.Path, form: str, seed: int, quick: bool) -> runs.Run:
  """The run of a form of TOLD from such a warm start."""
  start = hinted_start(root, seed, quick).workdir / 'final'
  name = form.replace(',', '').replace(' ', '_')
  return runs.Run(
    'launch.train',
    f'experiments/self_distill.py:model={start},{TOLD[form]}'
    + ',quick' * quick,
    root / 'distillation' / f'{name}_seed{seed}',
    (f'--config.seed={seed}', *methods.small('dapo', quick)),
  )


def rewarded(root: pathlib.Path, seed: int, quick: bool) -> runs.Run:
  """Rewards alone from such a warm start."""
  start = hinted_start(root, seed, quick).workdir / 'final'
  return runs.Run(
    'launch.train',
    f'experiments/quickstart.py:model={start}' + ',quick' * quick,
    root / 'distillation' / f'hinted_rewards_seed{seed}',
    (
      f'--config.seed={seed}',
      '--config.rollout.context=192',
      *methods.small('dapo', quick),
    ),
  )


def looks(run: runs.Run, how: str, quick: bool) -> dict[str, float]:
  """How a policy checks, and what it, told more, finds of that.

  The share of episodes that check and their tokens an episode; and by how much
  likelier the policy finds what it said when it is told more, in nats a token,
  on checks and elsewhere.

  Args:
    run: whose policy it is.
    how: the way of TOLD in which it is told more.
    quick: whether these are smoke runs.
  """
  config = self_distill.get_config(f'model={run.workdir}/final,{TOLD[how]}')
  world = build.world(config)
  strategy = names.resolve(config.rollout.strategy, 'arl.rollout')
  # Who is told the best of several needs several.
  tasks, samples = 16 if quick else methods.TASKS, 8
  episodes = distillation.episodes_of(
    world, tasks // samples, strategy, samples
  )
  said = reconsidering.phrases(self_distill.CHECKS)
  marks = [reconsidering.of(e, world.chat.decode, said) for e in episodes]
  gaps = [e.extras['teacher_logp'] - e.logp for e in episodes]
  both = list(zip(episodes, gaps, marks))
  on = np.concatenate([gap[mark] for _, gap, mark in both])
  off = np.concatenate([gap[e.mask & ~mark] for e, gap, mark in both])
  return {
    'episodes': float(np.mean([np.any(mark) for mark in marks])),
    'tokens': float(np.mean([np.sum(mark) for mark in marks])),
    'gap_on': float(np.mean(on)) if on.size else 0.0,
    'gap_off': float(np.mean(off)) if off.size else 0.0,
  }


_UNITS = {
  'episodes': 'of episodes that check',
  'tokens': 'tokens an episode',
  'gap_on': 'nats',
  'gap_off': 'nats',
}


def measure(
  form: str, row: Sequence[runs.Run], how: str, quick: bool
) -> list[str]:
  """Prints what a form reached and how it checks; the cells of its row."""
  name = f'self_distillation/{form}/{how}'
  after = runs.over_seeds([runs.result(r) for r in row], 'after', 'sampled')
  success = runs.cell(f'{name}/success', after, 'success rate')
  file = f'looks_{TOLD[how].replace(",", "_")}'
  seen = [runs.kept(r, file, lambda r=r: looks(r, how, quick)) for r in row]
  return [
    form,
    how,
    success,
    *(
      runs.cell(f'{name}/{key}', [one[key] for one in seen], unit)
      for key, unit in _UNITS.items()
    ),
  ]


def main(argv: list[str]) -> None:
  del argv
  quick, seeds, root = runs.quick(), runs.seeds(), runs.root()
  starts = [hinted_start(root, seed, quick) for seed in seeds]
  runs.make(starts)
  table = {REWARDS: [rewarded(root, seed, quick) for seed in seeds]}
  for form in QUICK if quick else TOLD:
    table[form] = [trained(root, form, seed, quick) for seed in seeds]
  runs.make([run for column in zip(*table.values()) for run in column])
  ways = QUICK if quick else WAYS
  body = [measure('warm start', starts, how, quick) for how in ways]
  for form, row in table.items():
    how = form if form in TOLD else ways[0]
    body.append(measure(form, row, how, quick))
  if quick:
    return
  runs.write_table(runs.RESULTS / 'self_distillation.md', HEADER, body, seeds)
  curves.compare(
    {form: [runs.rows(run) for run in row] for form, row in table.items()},
    'train/success',
    runs.RESULTS / 'self_distillation.png',
  )
  summary.write()


if __name__ == '__main__':
  runs.start(main)
