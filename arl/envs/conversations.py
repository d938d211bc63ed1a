"""Conversations out of a file, to imitate: one record of JSON a line.

  {"messages": [...], "tools": [...], "kind": "agent", "weight": 1.0}

The messages are in the OpenAI format, the last of them the assistant's. One of
the assistant may say `"train": false`: it is read, and not learnt. Tools, kind
and weight are optional. The strategies of `arl.rollout.conversations` make
episodes of it. There are no bad examples: the right answer to a question that
needs no tool, or for which there is none, is an example of a kind of its own
(the negatives of Agent-FLAN, arXiv:2403.12881).
"""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arl import episode, names
from arl.envs import base, records

_FIELDS = {'messages', 'tools', 'kind', 'weight', 'id'}
_SPLITS = {split: i for i, split in enumerate(base.SPLITS)}


def make(
  *,
  path: str,
  held_out: int = 16,
  weights: Mapping[str, float] | None = None,
  judged: Mapping[str, Any] | None = None,
) -> base.Env:
  """The environment of a file.

  Args:
    path: of the file.
    held_out: how many records at its end are not trained on.
    weights: by kind, how often a task is of that kind, whatever their numbers
      in the file; one that is not named is left out. The shares are those of
      AgentTuning (arXiv:2310.12823: 0.2 agents, 0.8 general) or of Agent-FLAN.
      Tasks are then drawn with return, and prompts.size is free. None for every
      record once.
    judged: the block of the environment whose held-out tasks tell what was
      learnt; None for the records held out, whose first answer is right word
      for word.

  Raises:
    ValueError: a record that cannot be learned from, by file and line; no
      record to train on; or weights that no record can follow.
  """
  read = [_record(where, given) for where, given in records.read(path)]
  parts = records.split(path, read, held_out)
  draw = functools.partial(records.at, parts)
  if weights is not None:
    by_kind = _by_kind(parts[base.TRAIN], weights)
    draw = functools.partial(_drawn, parts, by_kind, weights)
  if judged is not None:
    return _judged(dict(judged), draw)
  return base.Env(
    task=lambda split, index: _task(draw(split, index)),
    reset=lambda task: task,
    step=_step,
    oracle=_answer,
    noisy=lambda task, rng: _answer(task),
  )


def of_kind(
  kinds: Sequence[str], weights: Mapping[str, float], *path: int
) -> str:
  """One of the kinds, as often as its weight; `path` is all the randomness."""
  shares = np.array([weights[kind] for kind in kinds])
  rng = np.random.default_rng(path)
  return kinds[int(rng.choice(len(kinds), p=shares / shares.sum()))]


def _by_kind(read: Sequence[records.Record], weights: Mapping[str, float]):
  """The records of each kind that has a weight."""
  if not weights or not all(0 < w < math.inf for w in weights.values()):
    raise ValueError(
      f'conversations: weights is {dict(weights)}; give each kind that is'
      ' learnt one, above 0.'
    )
  found = {k: [r for r in read if r['kind'] == k] for k in weights}
  for kind, members in found.items():
    if not members:
      there = sorted({repr(record['kind']) for record in read})
      raise ValueError(
        f'conversations: no record is of the kind {kind!r}; there are'
        f' {", ".join(there)}.'
      )
  return found


def _drawn(parts, by_kind, weights, split: str, index: int) -> records.Record:
  if split != base.TRAIN:
    return records.at(parts, split, index)
  path = _SPLITS[split], index
  members = by_kind[of_kind(sorted(by_kind), weights, *path)]
  rng = np.random.default_rng((*path, len(members)))
  return members[int(rng.integers(len(members)))]


def _judged(block: dict[str, Any], draw) -> base.Env:
  """The environment of a block, with the file's tasks to train on."""
  if 'name' not in block:
    raise ValueError(
      'conversations: judged needs a name: the function that makes its'
      ' environment.'
    )
  inner = names.resolve(block.pop('name'), 'arl.envs')(**block)

  def task(split, index):
    if split == base.TRAIN:
      return _task(draw(split, index))
    return inner.task(split, index)

  return inner._replace(task=task)


def _record(where: str, given: records.Record) -> records.Record:
  """A record in one form, with `where` as its name."""
  records.check_fields(where, given, _FIELDS)
  said = records.listed(where, given.get('messages'))
  if said[0].get('role') == 'assistant':
    raise ValueError(
      f'{where}: the conversation begins with the assistant; put before it what'
      ' it answers to.'
    )
  if said[-1].get('role') != 'assistant':
    raise ValueError(
      f'{where}: the conversation ends with {said[-1].get("role")!r}; end it'
      ' with what the assistant says, which is what is learnt.'
    )
  for at, message in enumerate(said):
    _check_message(f'{where}: messages[{at}]', message)
  learnt = [m for m in said if m['role'] == 'assistant' and _trained(m)]
  if not learnt:
    raise ValueError(f'{where}: no message is learnt; drop the record.')
  kind, weight = given.get('kind', ''), given.get('weight', 1.0)
  if not isinstance(kind, str):
    raise ValueError(f'{where}: kind is {kind!r}; give a text.')
  number = isinstance(weight, int | float) and not isinstance(weight, bool)
  if not number or not 0 <= weight < math.inf:
    raise ValueError(f'{where}: weight is {weight!r}; give a number from 0 on.')
  return {
    'name': where,
    'messages': [{k: x for k, x in m.items() if k != 'train'} for m in said],
    'train': [m['role'] == 'assistant' and _trained(m) for m in said],
    'tools': given.get('tools') or [],
    'kind': kind,
    'weight': float(weight),
  }


def _trained(message: Mapping[str, Any]) -> bool:
  return message.get('train', True)


def _check_message(where: str, message: Mapping[str, Any]) -> None:
  mine = message.get('role') == 'assistant'
  if not isinstance(_trained(message), bool) or ('train' in message) > mine:
    raise ValueError(
      f'{where}.train is {message["train"]!r} of {message.get("role")!r}; give'
      ' true or false, to messages of the assistant.'
    )
  empty = not records.text(message).strip() and not message.get('tool_calls')
  if mine and empty and _trained(message):
    raise ValueError(f'{where} is empty; drop the record.')


def _task(record: records.Record) -> episode.Task:
  first = _first(record)
  prompt = records.text(record['messages'][first - 1])
  return episode.Task(f'conversations/{record["name"]}', prompt, record)


def _first(record: Mapping[str, Any]) -> int:
  """Where the assistant speaks first."""
  roles = [message['role'] for message in record['messages']]
  return roles.index('assistant')


def _answer(task: episode.Task) -> str:
  return records.text(task.data['messages'][_first(task.data)])


def _step(task: episode.Task, said: str):
  return task, episode.Turn('', float(said == _answer(task)), True)
