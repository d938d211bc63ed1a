"""What a run tells its curriculum of the policy after a step."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from arl import episode, types
from arl.prompts import curricula
from arl.rollout import chat as chat_lib
from arl.rollout import pack
from arl.train import build, processes, sharding

_VALUE = 'old_value'


def told(
  learner: build.Learner,
  params: Any,
  chat: chat_lib.Chat,
  width: int,
  change: float,
) -> curricula.Told:
  """How far the updates went, and the critic's word where there is one."""
  if _VALUE not in learner.method.needs:
    return curricula.Told(change)
  ask = functools.partial(values, learner, params, chat, width)
  return curricula.Told(change, ask)


def values(
  learner: build.Learner,
  params: Any,
  chat: chat_lib.Chat,
  width: int,
  tasks: Sequence[episode.Task],
) -> list[float]:
  """What the critic expects of each task before the first token is sampled.

  Args:
    learner: scores.
    params: of the policy and its critic.
    chat: how a task is told.
    width: tokens of a row.
    tasks: to judge.
  """
  episodes = [_opened(chat, task) for task in tasks]
  made: list[float] = []
  for at in range(0, len(episodes), learner.rows):
    part = episodes[at : at + learner.rows]
    placed = pack.pad(part, rows=learner.rows, width=width, max_turns=1)
    columns = types.columns(placed)
    columns = sharding.shard_rows(columns, learner.mesh)
    scored = learner.score(params, learner.others, columns)[_VALUE]
    rows = np.asarray(processes.here(scored))
    made += [float(rows[i, len(e.tokens) - 1]) for i, e in enumerate(part)]
  return made


def _opened(chat: chat_lib.Chat, task: episode.Task) -> episode.Episode:
  """A conversation whose only sampled token ends it."""
  opening = list(chat.opening(task))
  n = len(opening) + 1
  zeros, ids = np.zeros(n, np.float32), np.zeros(n, np.int32)
  return episode.Episode(
    task=task,
    sample=0,
    tokens=np.array([*opening, chat.stop[0]], np.int32),
    mask=np.arange(n) == n - 1,
    logp=zeros,
    rewards=zeros,
    turn=ids,
    status=episode.FINISHED,
  )
