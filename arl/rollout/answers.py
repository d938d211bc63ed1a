"""A strategy that puts the reference answer after what the policy found out."""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.envs import base
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import strategies


def with_reference(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  *,
  samples: int,
  sampling: engine_lib.Sampling,
  limits: strategies.Limits,
  path: tuple[int, ...],
) -> list[episode.Episode]:
  """Multi-turn episodes whose last action is replaced by the right answer.

  For objectives on how likely the policy makes the answer, such as GARL and
  PAFT. The column `answer` is true on its tokens, which are on the mask: a loss
  may raise their likelihood. Their log-probs are the engine's score of them. An
  episode that a limit cut off, or whose answer has no room, keeps its last
  action and has no such token.

  Arguments and errors as of `strategies.multi_turn`, and:

  Raises:
    ValueError: the environment has no reference answers.
  """
  if env.answer is None:
    raise ValueError(
      'answers.with_reference: the environment has no reference answers'
      ' (Env.answer); choose another rollout.strategy.'
    )
  made = strategies.multi_turn(
    engine,
    env,
    chat,
    tasks,
    samples=samples,
    sampling=sampling,
    limits=limits,
    path=path,
  )
  told = [_put(one, chat.action(env.answer(one.task)), limits) for one in made]
  scores = engine.score([e.tokens.tolist() for e in told], sampling.temperature)
  return [
    e._replace(logp=np.where(e.extras['answer'], score, e.logp))
    for e, score in zip(told, scores)
  ]


with_reference.gives = frozenset({'answer'})  # type: ignore[attr-defined]


def _put(one, ids, limits) -> episode.Episode:
  """The episode with the last action replaced by `ids`."""
  last = len(one.exchanges) - 1
  kept = int(np.argmax(one.mask & (one.turn == last)))
  if one.status != episode.FINISHED or kept + len(ids) > limits.context:
    nothing = np.zeros(len(one.tokens), bool)
    return one._replace(extras={**one.extras, 'answer': nothing})
  n = len(ids)

  def join(column, values):
    tail = np.broadcast_to(np.asarray(values, column.dtype), n)
    return np.concatenate([column[:kept], tail])

  rewards = join(one.rewards, 0)
  rewards[-1] = one.rewards[-1]
  return one._replace(
    tokens=join(one.tokens, ids),
    mask=join(one.mask, True),
    logp=join(one.logp, 0),
    rewards=rewards,
    turn=join(one.turn, last),
    extras={'answer': join(np.zeros(len(one.tokens), bool), True)},
  )
