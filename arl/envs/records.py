"""Files of records: one object of JSON a line, each named by file and line."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from arl.envs import base

Record = dict[str, Any]


def read(path: str) -> list[tuple[str, Record]]:
  """The records of a file with their names, `file:line`; empty lines are none.

  Raises:
    ValueError: there is no such file, or a line is no object of JSON.
  """
  file = pathlib.Path(path)
  if not file.is_file():
    raise ValueError(f'config.env.path is {path!r}, which is no file.')
  lines = file.read_text(encoding='utf-8').splitlines()
  named = [(f'{file.name}:{i}', line) for i, line in enumerate(lines, 1)]
  return [
    (where, _object(where, line)) for where, line in named if line.strip()
  ]


def _object(where: str, line: str) -> Record:
  try:
    given = json.loads(line)
  except json.JSONDecodeError as error:
    raise ValueError(f'{where}: no JSON: {error}.') from error
  if not isinstance(given, dict):
    raise ValueError(f'{where}: give an object of JSON.')
  return given


def check_fields(where: str, given: Record, known: set[str]) -> None:
  """Refuses a field that is not known: it would be dropped."""
  others = sorted(given.keys() - known)
  if others:
    raise ValueError(
      f'{where}: no field {others[0]!r} is known; leave it out, or name one of'
      f' {", ".join(sorted(known))}.'
    )


def listed(where: str, said: Any) -> list[Record]:
  """The messages of a conversation, if they are a list of some."""
  full = isinstance(said, list) and said
  if not full or not all(isinstance(one, dict) for one in said):
    raise ValueError(
      f'{where}: the conversation is {said!r}; give a text or messages.'
    )
  return said


def split(
  path: str, records: Sequence[Record], held_out: int
) -> dict[str, Sequence[Record]]:
  """The records by split: the last `held_out` are not trained on.

  Raises:
    ValueError: that leaves none to train on.
  """
  border = len(records) - held_out
  if held_out < 0 or border < 1:
    raise ValueError(
      f'{pathlib.Path(path).name} has {len(records)} records, of which'
      f' held_out={held_out}; leave at least one to train on.'
    )
  return {base.TRAIN: records[:border], base.HELD_OUT: records[border:]}


def at(parts: Mapping[str, Sequence[Record]], which: str, index: int) -> Record:
  """The record of an index; those that are held out are met again and again.

  Raises:
    ValueError: there are none, or not so many to train on.
  """
  records = parts[which]
  if not records:
    raise ValueError(f'recorded: no record is {which}; raise env.held_out.')
  if which == base.TRAIN and index >= len(records):
    raise ValueError(
      f'recorded: task {index} of {len(records)} records to train on; set'
      f' prompts.size to at most {len(records)}.'
    )
  return records[index % len(records)]


def text(message: Mapping[str, Any]) -> str:
  """What a message says; parts that are no text as JSON."""
  content = message.get('content') or ''
  return content if isinstance(content, str) else json.dumps(content)
