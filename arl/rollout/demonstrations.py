"""A strategy that lets the environment's demonstrator act: data to imitate."""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.envs import base
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import strategies


def noisy(
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
  """Episodes of `env.noisy`, as a strategy; engine and sampling are not asked.

  The log-probs of its tokens are nan: no policy sampled them. A demonstration
  is cut where the next message would leave the context.
  """
  del engine, sampling
  return [
    _demonstrate(env, chat, task, sample, limits, (*path, place, sample))
    for place, task in enumerate(tasks)
    for sample in range(samples)
  ]


def _demonstrate(env, chat, task, sample, limits, seed) -> episode.Episode:
  rng = np.random.default_rng(list(seed))
  row = strategies.Live(task, sample, seed)
  row.append(chat.opening(task))
  exchanges = base.play(
    env, task, lambda state: env.noisy(state, rng), limits.max_turns
  )
  for exchange in exchanges:
    ids = chat.action(exchange.action)
    if len(row.tokens) + len(ids) > limits.context:
      row.end(episode.MAX_TOKENS)
      break
    row.append(ids, np.full(len(ids), np.nan))
    row.exchanges.append(exchange)
    row.rewards[-1] = float(exchange.turn.reward)
    if exchange.turn.done:
      row.end(episode.FINISHED)
      break
    seen = chat.reply(exchange.turn.text, True)
    if len(row.tokens) + len(seen) >= limits.context:
      row.end(episode.MAX_TOKENS)
      break
    row.append(seen)
  if not row.status:
    row.end(episode.MAX_TURNS)
  return row.episode()
