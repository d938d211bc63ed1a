"""What the stages of each pipeline add, and Sparse-to-Dense against DAPO alone.

  python -m experiments.studies.pipelines [--quick] [--workdir=DIR]

Runs the pipelines of experiments/pipelines for each seed, and DAPO alone from
where the student of Sparse-to-Dense begins, for as many batches as all of that
pipeline's stages sample together. Prints a JSON object a line and rewrites
experiments/results/pipelines.md and pipelines.png.
"""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

from arl.report import stages as picture
from arl.train import metrics
from experiments.studies import runs, summary

PIPELINES = (
  'sparse_to_dense', 'specialists', 'r1', 'reft', 'rft', 'retrospective',
  'long2short',
)  # fmt: skip
DENSE = PIPELINES[0]
# The batches of 256 episodes that Sparse-to-Dense samples in all.
ALONE = 71


def of(root: pathlib.Path, name: str, seed: int, quick: bool) -> runs.Run:
  """The run of a pipeline and a seed."""
  return runs.Run(
    'launch.pipeline',
    f'experiments/pipelines/{name}.py:seed={seed}' + ',quick' * quick,
    root / f'{name}_seed{seed}',
  )


def alone(root: pathlib.Path, seed: int, quick: bool) -> runs.Run:
  """DAPO from where the student of Sparse-to-Dense begins."""
  model = of(root, DENSE, seed, quick).workdir / 'student_start/final'
  steps = 3 if quick else ALONE
  return runs.Run(
    'launch.train',
    f'experiments/quickstart.py:model={model}' + ',quick' * quick,
    root / f'alone_seed{seed}',
    (
      f'--config.seed={seed}',
      f'--config.steps={steps}',
      f'--config.eval.every={1 if quick else 5}',
    ),
  )


def told(run: runs.Run) -> dict[str, Any]:
  """What a pipeline says of itself."""
  return json.loads((run.workdir / 'pipeline.json').read_text('utf-8'))


def at_tokens(rows: Sequence[dict[str, float]], most: float) -> float | None:
  """The last held-out success before so many tokens were sampled."""
  sampled, found = 0.0, None
  for row in rows:
    sampled += metrics.sampled_tokens(row)
    if sampled > most:
      break
    found = row.get('eval/sampled', found)
  return found


def _stages(
  name: str, made: Sequence[dict[str, Any]], seeds
) -> list[list[str]]:
  """A line and a row of the table for each stage of a pipeline."""
  body = []
  for each in zip(*(one['stages'] for one in made), strict=True):
    stage = each[0]
    cells = [name, stage['name'], stage['method'] or stage['entry']]
    for when in ('before', 'after'):
      values = [one[when] for one in each]
      if None in values:
        cells.append('')
        continue
      value, interval = runs.mean(values)
      what = f'pipelines/{name}/{stage["name"]}/{when}'
      runs.line(what, value, 'success rate', '', seeds, interval)
      cells.append(runs.percent(value, interval))
    tokens = [one['sampled_tokens'] for one in each]
    known = None not in tokens
    cells.append(f'{sum(tokens) / len(tokens):,.0f}' if known else '')
    seconds, _ = runs.mean([one['seconds'] for one in each])
    body.append([*cells, f'{seconds:.0f}'])
  return body


def _compared(root, made, seeds, quick: bool) -> None:
  """Lines: DAPO alone at the tokens of the pipeline, and of its student."""
  rows = [runs.rows(alone(root, seed, quick)) for seed in seeds]
  budgets = {'all': [one['sampled_tokens'] for one in made], 'student': []}
  for one in made:
    own = [
      stage['sampled_tokens']
      for stage in one['stages']
      if stage['name'] in ('distilled', 'student')
    ]
    budgets['student'].append(sum(own))
  for which, most in budgets.items():
    looks = [at_tokens(r, tokens) for r, tokens in zip(rows, most)]
    found = [look for look in looks if look is not None]
    name = f'pipelines/{DENSE}/alone_at_tokens_of_{which}'
    if len(found) < len(looks):  # no look before that
      runs.line(name, None, 'success rate', '', seeds, None)
      continue
    value, interval = runs.mean(found)
    runs.line(name, value, 'success rate', '', seeds, interval)
    last = [one['stages'][-1]['after'] for one in made]
    gains = [a - b for a, b in zip(last, found)]
    gain, interval = runs.mean(gains)
    runs.line(f'{name}/gain', gain, 'success rate', '', seeds, interval)


def main(argv: list[str]) -> None:
  del argv
  root, quick, seeds = runs.root() / 'pipelines', runs.quick(), runs.seeds()
  table = {n: [of(root, n, seed, quick) for seed in seeds] for n in PIPELINES}
  runs.make([run for column in zip(*table.values()) for run in column])
  runs.make([alone(root, seed, quick) for seed in seeds])
  body = []
  for name, row in table.items():
    made = [told(run) for run in row]
    body += _stages(name, made, seeds)
    if name == DENSE:
      _compared(root, made, seeds, quick)
  if quick:
    return
  header = (
    'pipeline', 'stage', 'by', 'before', 'after', 'tokens sampled', 'seconds',
  )  # fmt: skip
  runs.write_table(runs.RESULTS / 'pipelines.md', header, body, seeds)
  first = told(table[DENSE][0])
  parts = [
    picture.Part(stage['name'], f'{stage["seconds"]:.0f} s', stage['points'])
    for stage in first['stages']
  ]
  title = 'Sparse-to-Dense, seed 0'
  picture.draw(parts, title, runs.RESULTS / 'pipelines.png')
  summary.write()


if __name__ == '__main__':
  runs.start(main)
