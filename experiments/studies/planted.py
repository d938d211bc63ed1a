"""Faults planted into real runs of a small world, a config each.

What is planted stands where the config names a part: an environment that
misleads, a selection, a strategy, an objective, a limit.
"""

from typing import Any

import ml_collections
import numpy as np

from arl.methods import compose, grpo, terms
from arl.rollout import strategies
from experiments import common

_HERE = 'experiments.studies'
HEALTHY = 'healthy'
# Fault -> what differs from a healthy run, by dotted name.
FAULTS: dict[str, dict[str, Any]] = {
  'masks': {'prompts.select': f'{_HERE}.sabotage.unmasked'},
  'hacking': {'env.misled': 'echo'},
  'length': {
    'env.misled': 'many',
    'rollout.max_turns': 16,
    'rollout.response_tokens': 200,
    'rollout.context': 256,
    'optimizer.lr': 1.5e-3,
    'eval.every': 5,
    'steps': 20,
  },
  'truncation': {'rollout.turn_tokens': 7},
  'calls': {'env.misled': 'inverted'},
  'loops': {'env.misled': 'slow'},
  'groups': {'env.misled': 'lost', 'rollout.temperature': 0.02},
  'entropy': {
    'env.misled': 'lost',
    'method.name': f'{_HERE}.planted.sharpening',
    'prompts.select': 'select.everything',
    'steps': 18,
  },
  'template': {'env.misled': 'form', 'optimizer.lr': 3e-4, 'steps': 24},
  'drift': {'rollout.lag': 6, 'optimizer.lr': 2e-3},
  'engine': {'rollout.strategy': f'{_HERE}.planted.heated'},
  'engine, shifted': {'rollout.strategy': f'{_HERE}.planted.shifted'},
  'engine, retokenized': {'rollout.strategy': f'{_HERE}.planted.retokenized'},
}


def warm_start() -> ml_collections.ConfigDict:
  """Imitates the demonstrator of the world."""
  config = _world()
  config.steps = 200
  config.model.size = 'quick'
  config.method = {'name': 'terms.imitation'}
  config.rollout.strategy = 'demonstrations.noisy'
  config.prompts.update(
    size=100_000, batch=64, samples=1, select='select.everything'
  )
  config.updates.update(per_batch=1, microbatch=16)
  config.optimizer.update(
    lr=3e-3, warmup=20, decay=config.steps, max_norm=1.0, weight_decay=0.01
  )
  config.eval.update(every=config.steps, tasks=16, final_tasks=16)
  return config


def run(
  model: str, fault: str, seed: int, quick: bool
) -> ml_collections.ConfigDict:
  """Trains from a warm start, healthy or with a fault."""
  config = _world()
  config.seed, config.model.path = seed, model
  config.steps = 9 if quick else 15
  config.prompts.update(batch=16, samples=8)
  config.updates.microbatch = 8
  config.optimizer.update(lr=1e-3, warmup=2)
  config.eval.update(every=3, tasks=32, final_tasks=16)
  if fault == 'entropy':
    config.method = {}
  with config.unlocked():
    config.update_from_flattened_dict(FAULTS.get(fault, {}))
  return config


def _world() -> ml_collections.ConfigDict:
  config = common.base()
  config.env = {
    'name': f'{_HERE}.planted_world.make',
    'guess': 0.4,
    'misled': '',
  }
  config.engine.slots = 128
  config.rollout.update(
    max_turns=8, turn_tokens=16, response_tokens=80, context=112
  )
  config.checkpoint.every = 1000
  return config


def sharpening() -> compose.Objective:
  """DAPO that is paid for being sure: a bonus of entropy with a minus."""
  return grpo.dapo()._replace(terms=(terms.entropy(-3.0),))


def heated(engine, env, chat, tasks, plan):
  """Multi-turn episodes sampled hotter than the trainer is told."""
  hot = plan.sampling._replace(temperature=1.5 * plan.sampling.temperature)
  plan = plan._replace(sampling=hot)
  return strategies.multi_turn(engine, env, chat, tasks, plan)


def shifted(engine, env, chat, tasks, plan):
  """Multi-turn episodes, each turn's log-probs those of the token before."""

  def shift(one):
    logp = one.logp.copy()
    for turn in set(one.turn[one.mask].tolist()):
      here = np.flatnonzero(one.mask & (one.turn == turn))
      logp[here[1:]] = one.logp[here[:-1]]
    return one._replace(logp=logp)

  made = strategies.multi_turn(engine, env, chat, tasks, plan)
  return [shift(one) for one in made]


def retokenized(engine, env, chat, tasks, plan):
  """Multi-turn episodes whose last turn is other tokens than were sampled.

  As where its text is tokenized again: the ids stand in reverse, what ends a
  turn stays, and the log-probs are those of the sampled ones.
  """

  def spell(one):
    last = one.mask & (one.turn == one.turn[one.mask].max())
    moved = last & ~np.isin(one.tokens, chat.stop)
    tokens = one.tokens.copy()
    tokens[moved] = one.tokens[moved][::-1]
    return one._replace(tokens=tokens)

  made = strategies.multi_turn(engine, env, chat, tasks, plan)
  return [spell(one) if one.mask.any() else one for one in made]
