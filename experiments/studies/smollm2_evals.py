"""What a pretrained model solves of other libraries' problems, as it comes.

  python -m experiments.studies.smollm2_evals --model=DIR [--quick]

Evaluates SmolLM2-135M-Instruct on each block of experiments/smollm2_evals.py,
greedy, 40 problems each, where results are missing. Prints a JSON object a
line and rewrites experiments/results/smollm2_evals.md, with a transcript each.
What a block needs is named where it is missing.
"""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from absl import flags

from experiments import smollm2_evals
from experiments.studies import runs, summary

TASKS = 40


def evaluated(root: pathlib.Path, name: str, quick: bool) -> dict[str, Any]:
  """The evaluation of a block, made where it is missing."""
  output = root / f'smollm2_{name}.json'
  if not output.exists():
    argument = f'model={flags.FLAGS.model},on={name}' + ',quick' * quick
    command = [
      sys.executable, '-m', 'launch.evaluate',
      f'--config=experiments/smollm2_evals.py:{argument}', '--first=0',
      f'--tasks={4 if quick else TASKS}', '--temperature=0',
      f'--output={output}',
    ]  # fmt: skip
    subprocess.run(command, check=True, stdout=sys.stderr, env={**os.environ})
  return json.loads(output.read_text())


def _shown(found: dict[str, Any]) -> str:
  """A transcript as a quotation."""
  one = max(found['transcripts'], key=lambda each: each['reward'])
  said = '\n'.join(turn['action'] for turn in one['turns'])
  text = f'{one["prompt"]}\n\n{said}\n\n(reward {one["reward"]:g})'
  return '\n'.join(f'> {line}'.rstrip() for line in text.splitlines())


def main(argv: list[str]) -> None:
  del argv
  root, quick = runs.root(), runs.quick()
  body, shown = [], []
  for name in smollm2_evals.ON:
    found = evaluated(root, name, quick)
    interval = [found['success_low'], found['success_high']]
    for what in ('success', 'tokens', 'max_tokens', 'seconds'):
      runs.line(
        f'smollm2_evals/{name}/{what}',
        found[what],
        'success rate' if what == 'success' else '',
        '',
        (0,),
        interval if what == 'success' else None,
      )
    success = runs.percent(found['success'], interval)
    cells = [found['graded'], f'{found["tokens"]:.0f}', found['max_tokens']]
    body.append([name, success, *map(str, cells), f'{found["seconds"]:.0f}'])
    shown.append(f'`{name}`:\n\n{_shown(found)}\n')
  if quick:
    return
  header = 'problems', 'solved', 'graded', 'tokens', 'cut off', 'seconds'
  table = runs.RESULTS / 'smollm2_evals.md'
  runs.write_table(table, header, body)
  text = table.read_text('utf-8') + '\n' + '\n'.join(shown)
  table.write_text(text, 'utf-8')
  summary.write()


def define() -> None:
  """Defines the flag of this study's own."""
  flags.DEFINE_string(
    'model', 'runs/smollm2/model', 'The folder that arl.models.convert wrote.'
  )


if __name__ == '__main__':
  runs.start(main, define=define)
