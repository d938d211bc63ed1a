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

  Raises:
    ValueError: a prompt that leaves no room to answer, or text of a task or an
      action that the tokenizer cannot spell.
  """
  del engine, sampling
  return [
    _demonstrate(env, chat, task, sample, limits, (*path, place, sample))
    for place, task in enumerate(tasks)
    for sample in range(samples)
  ]


def _demonstrate(env, chat, task, sample, limits, seed) -> episode.Episode:
  rng = np.random.default_rng(list(seed))
  row = strategies.start(env, chat, task, limits, sample, seed)
  while not row.status:
    ids = chat.action(env.noisy(row.state, rng))
    if len(row.tokens) + len(ids) > limits.context:
      row.end(episode.MAX_TOKENS)
      break
    row.append(ids, np.full(len(ids), np.nan))
    strategies.advance(row, ids, engine_lib.STOP, env, chat, limits)
  return row.episode()
