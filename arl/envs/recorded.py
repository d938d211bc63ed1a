"""Preferences out of a file: one record of JSON a line.

A record holds a conversation and what was said next, better and worse, or one
answer and whether it is good:

  {"messages": [...], "tools": [...], "chosen": A, "rejected": A}
  {"messages": [...], "tools": [...], "completion": A, "label": true}

The conversation is a list of messages in the OpenAI format that ends before the
assistant speaks, or under "prompt" a text or such a list; an answer A is a text
or a message of the assistant, also in a list of one. Tools are optional. The
strategies of `arl.rollout.recorded` make episodes of it. As an environment it
is a poor one: an action earns 1 if it is the preferred answer word for word.
"""

import functools
import pathlib
from collections.abc import Mapping
from typing import Any

from arl import episode
from arl.envs import base
from arl.envs import records as files

_PAIR = ('chosen', 'rejected')
_SINGLE = ('completion', 'label')
_FIELDS = {'messages', 'prompt', 'tools', 'id', *_PAIR, *_SINGLE}


def make(*, path: str, held_out: int = 16) -> base.Env:
  """The environment of a file.

  Args:
    path: of the file.
    held_out: how many records at its end are not trained on.

  Raises:
    ValueError: a record that cannot be learned from, by file and line; answers
      that are all good or all bad; or no record to train on.
  """
  records = [_record(where, given) for where, given in files.read(path)]
  _check_classes(pathlib.Path(path).name, records)
  parts = files.split(path, records, held_out)
  return base.Env(
    task=functools.partial(_task, parts),
    reset=lambda task: task,
    step=_step,
    oracle=lambda task: files.text(_answers(task)[0]),
    noisy=lambda task, rng: files.text(_answers(task)[-int(rng.integers(2))]),
  )


def _record(where: str, given: dict[str, Any]) -> dict[str, Any]:
  """A record in one form, with `where` as its name."""
  files.check_fields(where, given, _FIELDS)
  fields = _PAIR if 'chosen' in given else _SINGLE
  missing = [name for name in fields if given.get(name) is None]
  if missing or {*_PAIR, *_SINGLE} & given.keys() != {*fields}:
    raise ValueError(
      f'{where}: give chosen and rejected, or completion and label.'
    )
  made = {
    'name': where,
    'messages': _messages(where, given),
    'tools': given.get('tools') or [],
  }
  if fields == _SINGLE:
    if not isinstance(given['label'], bool):
      raise ValueError(f'{where}: label is {given["label"]!r}; true or false.')
    answer = _answer(where, 'completion', given['completion'])
    return {**made, 'completion': answer, 'label': given['label']}
  answers = {name: _answer(where, name, given[name]) for name in _PAIR}
  if answers['chosen'] == answers['rejected']:
    raise ValueError(
      f'{where}: chosen and rejected are equal, which prefers nothing; drop it.'
    )
  return {**made, **answers}


def _messages(where: str, given: Mapping[str, Any]) -> list[Any]:
  if ('messages' in given) == ('prompt' in given):
    raise ValueError(f'{where}: give either messages or a prompt.')
  said = given.get('messages', given.get('prompt'))
  if isinstance(said, str) and said.strip():
    said = [{'role': 'user', 'content': said}]
  said = files.listed(where, said)
  if said[-1].get('role') == 'assistant':
    raise ValueError(
      f'{where}: the conversation ends with the assistant; what it says next is'
      ' the answer, so put that message there.'
    )
  return said


def _answer(where: str, name: str, given: Any) -> dict[str, Any]:
  if isinstance(given, list) and len(given) == 1:
    (given,) = given
  if isinstance(given, str):
    given = {'role': 'assistant', 'content': given}
  if not isinstance(given, dict) or given.get('role') != 'assistant':
    raise ValueError(
      f'{where}: {name} is {given!r}; give a text, or one message of the'
      ' assistant.'
    )
  if not files.text(given).strip() and not given.get('tool_calls'):
    raise ValueError(f'{where}: {name} is empty; drop the record.')
  return given


def _check_classes(name: str, records: list[dict[str, Any]]) -> None:
  """Refuses a file that mixes kinds, or whose answers are of one class."""
  labels = {record['label'] for record in records if 'label' in record}
  paired = [record for record in records if 'chosen' in record]
  if labels and paired:
    raise ValueError(
      f'{paired[0]["name"]} is a pair, but other records of {name} are single'
      ' answers; make two files.'
    )
  if len(labels) == 1:
    raise ValueError(
      f'{records[0]["name"]} and all other answers of {name} have the label'
      f' {labels.pop()}; of one class alone there is nothing to tell apart.'
    )


def _answers(task: episode.Task) -> list[Mapping[str, Any]]:
  names = _PAIR if 'chosen' in task.data else _SINGLE[:1]
  return [task.data[name] for name in names]


def _task(parts, split: str, index: int) -> episode.Task:
  record = files.at(parts, split, index)
  prompt = files.text(record['messages'][-1])
  return episode.Task(f'recorded/{record["name"]}', prompt, record)


def _step(task: episode.Task, text: str):
  best = task.data.get('chosen')
  reward = float(best is not None and text == files.text(best))
  return task, episode.Turn('', reward, True)
