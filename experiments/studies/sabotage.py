"""Parts that break training on purpose, for negative controls.

The selections stand where `config.prompts.select` names one.
"""

import random
from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.envs import base
from arl.prompts import select
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import strategies


def unmasked(groups: list[episode.Group]) -> list[episode.Group]:
  """A selection that puts what the environment said on the mask as well."""

  def expose(one):
    first = int(one.mask.argmax())  # the prompt stays off the mask
    mask = one.mask.copy()
    mask[first:] = True
    return one._replace(mask=mask)

  return [
    group._replace(episodes=[expose(e) for e in group.episodes])
    for group in select.varied(groups)
  ]


def shuffled(groups: list[episode.Group]) -> list[episode.Group]:
  """A selection whose episodes carry the rewards of others of the batch."""
  episodes = [e for group in groups for e in group.episodes]
  totals = [episode.total_reward(e) for e in episodes]
  random.Random(str(sum(len(e.tokens) for e in episodes))).shuffle(totals)
  given = iter(totals)

  def swap(one):
    rewards = one.rewards * 0
    rewards[one.mask.nonzero()[0][-1]] = next(given)
    return one._replace(rewards=rewards)

  return select.varied(
    [g._replace(episodes=[swap(e) for e in g.episodes]) for g in groups]
  )


def misreported(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """Multi-turn episodes whose log-probs are off by normal noise.

  A sampler whose arithmetic differs from the trainer's: each log-prob by 0.3
  nats in the root mean square, and none above 0. It stands where
  `config.rollout.strategy` names a strategy.
  """
  made = strategies.multi_turn(engine, env, chat, tasks, plan)
  rng = np.random.default_rng(plan.path)

  def spoil(one):
    noise = rng.normal(scale=0.3, size=len(one.logp)).astype(np.float32)
    told = np.minimum(one.logp + noise, 0)
    return one._replace(logp=np.where(one.mask, told, 0))

  return [spoil(e) for e in made]
