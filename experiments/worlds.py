"""Environments that the quickstart's small model learns, and their budgets.

Of each world: the block of its environment, how it is rolled out, what its
episodes need beside `common.base`, the supervised steps of its warm start and
its rollout batches. What programs do is remembered, so warm starts of worlds
that run them see few tasks.
"""

import ml_collections

from experiments import common

WORLDS = {
  'tools': {
    'env': {'name': 'tools.make'},
    'rollout': {},
    'imitated': 900,
    'steps': 40,
  },
  'frozen_lake': {
    'env': {'name': 'gridworld.make', 'size': 3, 'holes': 2},
    'rollout': {
      'max_turns': 8,
      'turn_tokens': 8,
      'response_tokens': 64,
      'context': 192,
    },
    'imitated': 600,
    'steps': 40,
  },
  'keydoor': {
    'env': {'name': 'keydoor.make', 'length': 1, 'sides': 2, 'fault': 0.5},
    'rollout': {
      'max_turns': 8,
      'turn_tokens': 8,
      'response_tokens': 64,
      'context': 256,
    },
    'imitated': 600,
    'steps': 40,
  },
  'search': {
    'env': {'name': 'search.make'},
    'rollout': {
      'max_turns': 4,
      'turn_tokens': 20,
      'response_tokens': 80,
      'context': 192,
    },
    'imitated': 900,
    'steps': 40,
  },
  'coding': {
    'env': {'name': 'coding.make', 'tries': 1, 'fault': 0.6},
    'strategy': 'asynchronous.multi_turn',
    'rollout': {
      'max_turns': 1,
      'turn_tokens': 32,
      'response_tokens': 32,
      'context': 160,
    },
    'tasks': 400,
    'imitated': 400,
    'steps': 40,
  },
  'terminal': {
    'env': {'name': 'terminal.make'},
    'strategy': 'asynchronous.multi_turn',
    'rollout': {
      'max_turns': 4,
      'turn_tokens': 20,
      'response_tokens': 80,
      'context': 160,
    },
    'tasks': 2000,
    'imitated': 600,
    'steps': 40,
  },
}


def set_up(config: ml_collections.ConfigDict, name: str) -> dict:
  """Writes a world into a config, and gives it.

  Raises:
    ValueError: there is no such world.
  """
  world = WORLDS[common.one_of('env', name, WORLDS)]
  config.env = dict(world['env'])
  config.eval.strategy = world.get('strategy', config.eval.strategy)
  config.rollout.update(world['rollout'])
  return world


def quicken(config: ml_collections.ConfigDict) -> None:
  """Makes a run a smoke run, which learns nothing."""
  config.steps = 3
  config.engine.slots = 16
  config.eval.update(every=2, tasks=16, final_tasks=16)
