"""What a teacher is worth: distillation against rewards and samples.

  python -m experiments.studies.distillation [--quick] [--workdir=DIR]

The teacher is the quickstart's agent after few batches of rewards, still far
from perfect; students start from the same warm start, and take 40 batches of 32
episodes in each form of experiments/distill.py that is studied, from rewards
alone, or by imitating as many episodes of the teacher. Batches are small, so
that what a batch tells, and not the size of steps, decides how fast they learn.
Prints a JSON object a line and rewrites experiments/results/distillation.md and
two figures beside it. What a policy learns from itself, told more, is another
study: experiments.studies.self_distillation.
"""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from arl import episode
from arl.report import curves
from arl.train import build, evaluation
from experiments import distill
from experiments.studies import methods, quickstart, reaching, runs, summary

FORMS = (
  'opd', 'exopd_1', 'exopd', 'reopold', 'tropd', 'eopd', 'opd_full', 'opd_tail',
  'gkd',
)  # fmt: skip
DRAWN = ('rewards', 'opd', 'exopd', 'opd_full', 'tropd', 'gkd')
QUICK = ('exopd', 'gkd')
BATCHES, EPISODES = 6, 32  # of the teacher; of a batch of its students
NEAR = 0.95  # what counts as near: a share of the teacher's success
HEADER = (
  'form', 'function', 'success', 'over the teacher', 'KL to the teacher',
  'tokens', 'seconds',
)  # fmt: skip
REWARDS, KL = 'rewards', 'KL to the teacher (nats a token)'
_IMITATE = 'experiments/studies/imitating.py'


def small(quick: bool) -> tuple[str, ...]:
  """The overrides of a run of this study."""
  few = ('--config.steps=40', f'--config.prompts.batch={EPISODES // 8}')
  return () if quick else (*methods.small('dapo', quick), *few)


def taught(root: pathlib.Path, form: str, seed: int, quick: bool) -> runs.Run:
  """The run of a form from the warm start of a seed."""
  start = quickstart.warm_start(root, seed, quick).workdir / 'final'
  teacher = teacher_of(root, seed, quick).workdir / 'final'
  argument = f'model={start},teacher={teacher},method={form}'
  return runs.Run(
    'launch.train',
    f'experiments/distill.py:{argument}' + ',quick' * quick,
    root / 'distillation' / f'{form}_seed{seed}',
    (f'--config.seed={seed}', *small(quick)),
  )


def teacher_of(root: pathlib.Path, seed: int, quick: bool) -> runs.Run:
  """Few batches of rewards from the warm start of a seed."""
  few = () if quick else (f'--config.steps={BATCHES}',)
  made = methods.trained(root, 'dapo', seed, quick, 'teacher', few)
  return made._replace(workdir=root / 'distillation' / f'teacher_seed{seed}')


def rewarded(root: pathlib.Path, seed: int, quick: bool) -> runs.Run:
  """Rewards alone from the warm start of a seed."""
  made = methods.trained(root, 'dapo', seed, quick, 'rewards', small(quick))
  return made._replace(workdir=root / 'distillation' / f'rewards_seed{seed}')


def samples_of(root: pathlib.Path, seed: int, quick: bool) -> runs.Run:
  """As many episodes of the teacher as a student samples itself."""
  teacher = teacher_of(root, seed, quick).workdir / 'final'
  return runs.Run(
    'launch.sample',
    f'experiments/quickstart.py:model={teacher}' + ',quick' * quick,
    root / 'distillation' / f'samples_seed{seed}',
    (
      f'--config.seed={seed}',
      '--config.prompts.select=experiments.studies.imitating.spoken',
      *small(quick),
    ),
  )


def imitating(root: pathlib.Path, seed: int, quick: bool) -> runs.Run:
  """The warm start of a seed after those episodes."""
  start = quickstart.warm_start(root, seed, quick).workdir / 'final'
  told = samples_of(root, seed, quick).workdir / 'conversations.jsonl'
  return runs.Run(
    'launch.sft',
    f'{_IMITATE}:model={start},data={told}' + ',quick' * quick,
    root / 'distillation' / f'imitating_seed{seed}',
    (f'--config.seed={seed}',),
  )


# What is measured of a policy, once.


def episodes_of(
  world: build.World, tasks: int, strategy=None, samples: int = 1
) -> list[episode.Episode]:
  """Sampled episodes of fresh held-out tasks."""
  return evaluation.run(
    world,
    evaluation.held_out(world, 2000, tasks),
    evaluation.variants(1.0)['sampled'],
    (evaluation.FINAL,),
    samples,
    strategy=strategy,
  )


def apart(run: runs.Run, teacher: runs.Run, quick: bool) -> dict[str, float]:
  """The KL to the teacher, nats a token, estimated on the policy's samples."""
  world, other = (
    build.world(distill.get_config(f'model={one.workdir}/final'))
    for one in (run, teacher)
  )
  episodes = episodes_of(world, 16 if quick else methods.TASKS)
  scores = other.engine.score([e.tokens.tolist() for e in episodes], 1.0)
  gaps = [(e.logp - s)[e.mask] for e, s in zip(episodes, scores)]
  return {'kl': float(np.mean(np.concatenate(gaps)))}


def tokens_of(row: Sequence[runs.Run], best: Sequence[float]) -> float | None:
  """The mean over seeds of tokens until near the teacher; None if one never is.

  Args:
    row: the runs.
    best: success of the teacher of each.
  """
  moments = [
    reaching.reached(runs.rows(run), NEAR * b) for run, b in zip(row, best)
  ]
  tokens = [moment.tokens for moment in moments if moment]
  return sum(tokens) / len(tokens) if len(tokens) == len(row) else None


# The tables.


def success_of(row: Sequence[runs.Run]) -> list[float]:
  """Held-out success of each seed after training, sampled."""
  results = [runs.result(run) for run in row]
  return runs.over_seeds(results, 'after', 'sampled')


def compare(
  table: Mapping[str, Sequence[runs.Run]], best: Sequence[float]
) -> None:
  """Prints how many times fewer tokens than rewards alone each form takes."""
  alone = tokens_of(table[REWARDS], best)
  for form, row in table.items():
    if form == REWARDS:
      continue
    tokens = tokens_of(row, best)
    times = alone / tokens if alone and tokens else None
    name = f'distillation/{form}/fewer_tokens'
    runs.line(name, times, 'times fewer', '> 1', runs.seeds(), None)


def measure(
  form: str,
  function: str,
  row: Sequence[runs.Run],
  teachers: Sequence[runs.Run],
  quick: bool,
) -> list[str]:
  """Prints what a form reached; the cells of its row."""
  results = [runs.result(run) for run in row]
  after, best = success_of(row), success_of(teachers)
  name = f'distillation/{form}'
  cells = [form, function, runs.cell(f'{name}/success', after, 'success rate')]
  over = [a - b for a, b in zip(after, best)]
  cells.append(runs.cell(f'{name}/over_teacher', over, 'success rate', '> 0'))
  kl = [
    runs.kept(run, 'apart', lambda run=run, t=t: apart(run, t, quick))['kl']
    for run, t in zip(row, teachers)
  ]
  cells.append(runs.cell(f'{name}/kl', kl, 'nats a token'))
  mean = None
  if form in distill.DISTILLED or form == REWARDS:  # others sample nothing
    mean = tokens_of(row, best)
  runs.line(f'{name}/tokens', mean, 'tokens', '', runs.seeds(), None)
  cells.append('' if mean is None else f'{mean:,.0f}')
  seconds = sum(r['wall_seconds'] for r in results) / len(results)
  runs.line(f'{name}/wall', seconds, 'seconds', '', runs.seeds(), None)
  return [*cells, f'{seconds:.0f}']


def main(argv: list[str]) -> None:
  del argv
  quick, seeds, root = runs.quick(), runs.seeds(), runs.root()
  of = lambda make: [make(root, seed, quick) for seed in seeds]
  for make in (quickstart.warm_start, teacher_of, samples_of, imitating):
    runs.make(of(make))
  table = {REWARDS: of(rewarded)}
  for form in QUICK if quick else FORMS:
    table[form] = [taught(root, form, seed, quick) for seed in seeds]
  runs.make([run for column in zip(*table.values()) for run in column])
  teachers = of(teacher_of)
  rows = {
    'warm start': ('', of(quickstart.warm_start)),
    'teacher': ('grpo.dapo', teachers),
    'imitating': ('terms.imitation', of(imitating)),
    REWARDS: ('grpo.dapo', table[REWARDS]),
  }
  for form, row in table.items():
    if form in distill.DISTILLED:
      rows[form] = distill.DISTILLED[form]['name'], row
  body = [
    measure(form, function, row, teachers, quick)
    for form, (function, row) in rows.items()
  ]
  compare(table, success_of(teachers))
  if quick:
    return
  runs.write_table(runs.RESULTS / 'distillation.md', HEADER, body, seeds)
  draw({form: [runs.rows(run) for run in table[form]] for form in DRAWN})
  summary.write()


def draw(rows: Mapping[str, Sequence[curves.Rows]]) -> None:
  """Draws success, and the KL to the teacher while it teaches, by batches."""
  curves.compare(rows, 'train/success', runs.RESULTS / 'distillation.png')
  gaps = {
    form: [[gap(row) for row in each] for each in seeds]
    for form, seeds in rows.items()
    if form != REWARDS
  }
  curves.compare(gaps, KL, runs.RESULTS / 'distillation_kl.png')


def gap(row: Mapping[str, float]) -> dict[str, float]:
  """The KL to the teacher on a batch, whatever the part of the loss is called.

  In nats a token, estimated on what was sampled.
  """
  found = [x for name, x in row.items() if name.endswith('/teacher_gap')]
  return {'step': row['step'], KL: found[0]}


if __name__ == '__main__':
  runs.start(main)
