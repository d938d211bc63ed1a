"""A strategy that asks how likely an action is to who knows what came of it."""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.envs import base
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import privileged, strategies


def told_feedback(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """Multi-turn episodes, each turn scored once more behind its feedback.

  For BATON (arXiv:2609.19830): a hint before the prompt tells what the
  environment answered to the turn and what the episode earned. What the answer
  repeats of the action is left out of the hint, so that it cannot be copied.
  The scores are the column `hindsight_logp`; a turn whose row has no room in
  the context has its own log-probs there, and so no evidence.

  Arguments and errors as of `strategies.multi_turn`.
  """
  made = strategies.multi_turn(engine, env, chat, tasks, plan)
  rows = {}
  for i, one in enumerate(made):
    for turn in range(len(one.exchanges)):
      row = _row(chat, one, turn)
      if len(row) <= plan.limits.context:
        rows[i, turn] = row
  scores = engine.score(list(rows.values()), plan.sampling.temperature)
  columns = [one.logp.copy() for one in made]
  for (i, turn), score in zip(rows, scores, strict=True):
    one = made[i]
    here = one.mask & (one.turn == turn)
    end = int(np.flatnonzero(here)[-1]) + 1
    columns[i][:end][here[:end]] = score[len(score) - end :][here[:end]]
  return [
    one._replace(extras={**one.extras, 'hindsight_logp': column})
    for one, column in zip(made, columns)
  ]


told_feedback.gives = frozenset({'hindsight_logp'})  # type: ignore[attr-defined]


def feedback(one: episode.Episode, turn: int) -> str:
  """What came of a turn: what was shown then, and what was earned in all."""
  exchange = one.exchanges[turn]
  last = turn == len(one.exchanges) - 1
  shown = '' if last else exchange.turn.text
  if exchange.action.strip():
    shown = shown.replace(exchange.action.strip(), '')
  return f'{shown} {episode.total_reward(one):g}'.strip()


def _row(chat, one: episode.Episode, turn: int) -> list[int]:
  """The episode's ids up to the end of a turn, behind its feedback."""
  end = int(np.flatnonzero(one.mask & (one.turn == turn))[-1]) + 1
  row = privileged.behind(chat, one, feedback(one, turn))
  return row[: len(row) - (len(one.tokens) - end)]
