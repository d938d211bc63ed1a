"""What is wrong with a run: python -m launch.doctor --workdir=DIR.

It reads the folder of a run, finished or still going: metrics.jsonl,
config.json, samples.jsonl. It prints a checklist, in the order in which to
look, then the signs of what goes wrong, each with its numbers, the steps that
they are of, and the settings to change. `--json` prints a JSON object a line
instead, `--limits` what numbers are compared with.

The exit status is 0 where nothing trips, 1 where something does, and 2 where
the folder cannot be read.
"""

import json
import pathlib
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from absl import app, flags

from arl import command
from arl.evaluate import checklist, doctor, findings, limits
from arl.train import metrics, watch

_WIDTH = 80
_SHOWN = 400  # characters of a sample


def read(folder: pathlib.Path) -> findings.Run:
  """A run's folder, as the doctor wants it.

  Raises:
    FileNotFoundError: it has no metrics, or no config.
    ValueError: one of its files is not valid.
  """
  for name in (metrics.FILE, watch.CONFIG):
    if not (folder / name).exists():
      raise FileNotFoundError(
        f'{folder} has no {name}, which a run writes from its first step on;'
        ' give the --workdir of launch.train.'
      )
  config = json.loads((folder / watch.CONFIG).read_text(encoding='utf-8'))
  return findings.Run(metrics.read(folder), config, watch.latest(folder))


def told(run: findings.Run) -> Iterator[dict[str, Any]]:
  """The checklist and the signs, as JSON-serializable facts."""
  for number, found in enumerate(checklist.go_through(run)):
    yield {'kind': 'check', 'number': number, **found._asdict()}
  for found in doctor.diagnose(run):
    failure = doctor.SIGNS[found.name].failure
    how = doctor.FOLLOWS.get((found.name, found.because), '')
    yield {
      'kind': 'sign',
      'number': failure,
      **found._asdict(),
      'how': how,
    }


def text(facts: Sequence[dict[str, Any]]) -> str:
  """The facts for people to read, without color."""
  lines = []
  for kind, title in (
    ('check', 'In this order'),
    ('sign', 'Signs (in brackets: which of the seven failures)'),
  ):
    lines += [title, '-' * len(title)]
    for fact in facts:
      if fact['kind'] == kind:
        lines += _lines(fact)
    lines.append('')
  return '\n'.join(lines)


def _lines(fact: dict[str, Any]) -> list[str]:
  mark = {findings.TRIPS: '!!', findings.QUIET: 'ok'}.get(fact['state'], ' ?')
  number = f'[{fact["number"] or "-"}]' * (fact['kind'] == 'sign')
  label = f'{number or fact["number"]} {fact["name"]}'
  first, last = fact['steps']
  steps = f' (steps {first} to {last})' if last else ''
  lines = _wrapped(f'{mark} {label}: ', f'{fact["evidence"]}{steps}')
  if fact['state'] == findings.TRIPS:
    if fact.get('how'):
      lines += _wrapped('   follows from ', f'{fact["because"]}: {fact["how"]}')
    lines += _wrapped('   look at: ', ', '.join(fact['settings']))
  if fact['sample']:
    lines += _wrapped('   sample: ', repr(fact['sample'][:_SHOWN])[1:-1])
  return lines


def _wrapped(head: str, body: str) -> list[str]:
  return textwrap.wrap(
    body, _WIDTH, initial_indent=head, subsequent_indent=' ' * 5
  )


def table() -> str:
  """The limits: a line each, with the source of the number."""
  rows = [
    f'{name:12} {x.value:<6g} {x.source:11} {x.meaning}'
    for name, x in limits.LIMITS.items()
  ]
  return '\n'.join(rows)


def examine(folder: pathlib.Path, as_json: bool) -> int:
  """Prints what is wrong with a run; the exit status."""
  try:
    facts = list(told(read(folder)))
  except (OSError, ValueError) as error:
    print(error, file=sys.stderr)
    return 2
  if as_json:
    for fact in facts:
      print(json.dumps(fact))
  else:
    print(text(facts))
  return int(any(fact['state'] == findings.TRIPS for fact in facts))


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  given = flags.FLAGS
  if given.limits:
    print(table())
  elif given.workdir is None:
    raise app.UsageError('name the folder of a run: --workdir=DIR')
  else:
    sys.exit(examine(pathlib.Path(given.workdir), given.json))


def define() -> None:
  """Defines the flags."""
  flags.DEFINE_string('workdir', None, 'The folder of a run.')
  flags.DEFINE_bool('json', False, 'A JSON object a line.')
  flags.DEFINE_bool('limits', False, 'Print the limits, and be done.')


if __name__ == '__main__':
  command.run(main, define)
