"""A strategy that asks the policy, turn by turn, for the right answer."""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.envs import base
from arl.rewards import steps
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import strategies

_PROBE = 'answer'  # asks again, where the episode has ended


def beliefs(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """Multi-turn episodes whose turns are scored by the belief they moved.

  For GRPO-VPS (arXiv:2604.20659): a belief is exp(mean log-prob) of the
  reference answer as the next action, before the first turn and after each. Its
  change over a turn is in `process_rewards`, in place of the environment's
  scores, on the turn's last token. Nothing is sampled for it, and nothing of it
  is trained on. After the last turn, which nothing follows, the answer is asked
  for by a message. A probe that has no room in the context moves nothing.

  Arguments and errors as of `strategies.multi_turn`, and:

  Raises:
    ValueError: the environment has no reference answers.
  """
  if env.answer is None:
    raise ValueError(
      'probing.beliefs: the environment has no reference answers (Env.answer)'
      ' to believe in; choose another rollout.strategy.'
    )
  golds = {task.id: chat.action(env.answer(task)) for task in tasks}
  made = strategies.multi_turn(engine, env, chat, tasks, plan)
  rows = {}
  for i, one in enumerate(made):
    for place, begun in enumerate(_moments(chat, one)):
      row = [*begun, *golds[one.task.id]]
      if len(row) <= plan.limits.context:
        rows[i, place] = row
  scores = engine.score(list(rows.values()), 1.0)
  told = {
    (i, place): float(np.exp(np.mean(score[-len(golds[made[i].task.id]) :])))
    for (i, place), score in zip(rows, scores, strict=True)
  }
  return [_scored(one, i, told) for i, one in enumerate(made)]


beliefs.gives = frozenset({'process_rewards'})  # type: ignore[attr-defined]
beliefs.asks = frozenset({'answer'})  # type: ignore[attr-defined]


def _moments(chat, one: episode.Episode) -> list[list[int]]:
  """The ids before each turn, and those after the last with the probe."""
  ids = [int(i) for i in one.tokens]
  starts = [
    int(np.flatnonzero(one.mask & (one.turn == turn))[0])
    for turn in range(len(one.exchanges))
  ]
  ended = ids if ids[-1] in chat.stop else [*ids, *chat.stop[:1]]
  return [*(ids[:n] for n in starts), [*ended, *chat.reply(_PROBE)]]


def _scored(one: episode.Episode, i: int, told) -> episode.Episode:
  """The episode with the shifts of belief at the ends of its turns."""
  turns = len(one.exchanges)
  known, latest = [], 0.0
  for place in range(turns + 1):
    latest = told.get((i, place), latest)
    known.append(latest)
  column = np.zeros(len(one.tokens), np.float32)
  for turn, shift in enumerate(steps.belief_shifts(known)):
    column[np.flatnonzero(one.mask & (one.turn == turn))[-1]] = shift
  return one._replace(extras={**one.extras, 'process_rewards': column})
