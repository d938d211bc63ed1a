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
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """Multi-turn episodes whose last action is replaced by the right answer.

  For objectives on how likely the policy makes the answer, such as GARL and
  PAFT. The column `answer` is true on its tokens, which are on the mask: a loss
  may raise their likelihood. Their log-probs are the engine's score of them.
  What the replaced action earned, its reward and the score of its step, lies on
  the answer's last token; the entropies of the rollout are dropped, since no
  policy chose the answer. An episode that a limit cut off, or whose answer has
  no room, keeps its last action and has no token of an answer.

  Arguments and errors as of `strategies.multi_turn`, and:

  Raises:
    ValueError: the environment has no reference answers.
  """
  if env.answer is None:
    raise ValueError(
      'answers.with_reference: the environment has no reference answers'
      ' (Env.answer); choose another rollout.strategy.'
    )
  made = strategies.multi_turn(engine, env, chat, tasks, plan)
  told = [_put(one, env.answer(one.task), chat, plan.limits) for one in made]
  scores = engine.score(
    [e.tokens.tolist() for e in told], plan.sampling.temperature
  )
  return [
    e._replace(logp=np.where(e.extras['answer'], score, e.logp))
    for e, score in zip(told, scores)
  ]


with_reference.gives = frozenset({'answer'})  # type: ignore[attr-defined]
with_reference.asks = frozenset({'answer'})  # type: ignore[attr-defined]
with_reference.lacks = frozenset({'rollout_entropy'})  # type: ignore[attr-defined]


def _put(one, text, chat, limits) -> episode.Episode:
  """The episode with its last action replaced by that text."""
  ids = chat.action(text)
  last = len(one.exchanges) - 1
  kept = int(np.argmax(one.mask & (one.turn == last)))
  extras = {n: x for n, x in one.extras.items() if n != 'rollout_entropy'}
  nothing = np.zeros(len(one.tokens), bool)
  if one.status != episode.FINISHED or kept + len(ids) > limits.context:
    return one._replace(extras={**extras, 'answer': nothing})
  n = len(ids)

  def join(column, values):
    tail = np.broadcast_to(
      np.reshape(values, (-1,) + (1,) * (column.ndim - 1)),
      (n, *column.shape[1:]),
    ).astype(column.dtype)
    return np.concatenate([column[:kept], tail])

  def earned(column):
    return np.append(join(column, 0)[:-1], column[-1:])

  kept_exchanges, replaced = one.exchanges[:-1], one.exchanges[-1]
  if 'process_rewards' in extras:
    extras['process_rewards'] = earned(extras['process_rewards'])
  for name in {'rollout_version', 'routed_experts'} & extras.keys():
    extras[name] = join(extras[name], -1)
  return one._replace(
    tokens=join(one.tokens, ids),
    mask=join(one.mask, True),
    logp=join(one.logp, 0),
    rewards=earned(one.rewards),
    turn=join(one.turn, last),
    exchanges=(*kept_exchanges, replaced._replace(action=chat.decode(ids))),
    extras={**extras, 'answer': join(nothing, True)},
  )
