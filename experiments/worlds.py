"""Environments that the quickstart's small model learns, and their budgets."""

from typing import Any, NamedTuple

import ml_collections


class World(NamedTuple):
  """An environment and what an episode of it needs.

  Attributes:
    env: its block.
    rollout: settings of the rollout beside those of `common.base`.
    imitated: supervised steps of the warm start.
    steps: rollout batches.
  """

  env: dict[str, Any]
  rollout: dict[str, Any]
  imitated: int = 600
  steps: int = 40


WORLDS = {
  'tools': World({'name': 'tools.make'}, {}, imitated=900),
  'frozen_lake': World(
    {'name': 'gridworld.make', 'size': 3, 'holes': 2},
    {'max_turns': 8, 'turn_tokens': 8, 'response_tokens': 64, 'context': 192},
  ),
  'keydoor': World(
    {'name': 'keydoor.make', 'length': 1, 'sides': 2},
    {'max_turns': 8, 'turn_tokens': 8, 'response_tokens': 64, 'context': 256},
  ),
}


def of(name: str) -> World:
  """The world of a name.

  Raises:
    ValueError: there is none.
  """
  if name not in WORLDS:
    raise ValueError(
      f'config argument env={name}: known are {", ".join(WORLDS)}.'
    )
  return WORLDS[name]


def set_up(config: ml_collections.ConfigDict, world: World) -> None:
  """Writes a world's environment and budgets into a config."""
  config.env = dict(world.env)
  config.rollout.update(world.rollout)
