"""Environments of other libraries, for the study of environments.

Those whose library is not installed are left out there, and said to be.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from arl.envs import (
  base,
  bfcl,
  bfcl_multi_turn,
  call_syntax,
  gymnasium_text,
  minigrid_text,
  reasoning,
  tau,
  tau_domains,
  text_arena,
  textworld_games,
)

_LAKE = ('SFFF', 'FHFH', 'FFFH', 'HFFG')  # the package's own, 4 x 4


def _slippery() -> base.Env:
  """The package's own lake; tasks differ in how they slip."""
  env = gymnasium_text.make(game='frozen_lake', slippery=True)
  task = gymnasium_text.from_start('frozen_lake', True, 0, _LAKE)
  return env._replace(
    task=lambda split, index: task._replace(
      id=base.task_id(task.id, split, index)
    )
  )


def _held_out(make: Callable[[], base.Env], count: int) -> base.Env:
  """An evaluation set of so many tasks, taken for both splits, in a circle."""
  env = make()

  def task(split: str, index: int):
    place = 2 * index + base.SPLITS.index(split)
    return env.task(base.HELD_OUT, place % count)

  return env._replace(task=task)


def _any_call(state: base.State, rng: np.random.Generator) -> str:
  """A call of any tool of telecom's, or a few words."""
  del state
  return tau.at_random(
    call_syntax.SYNTAXES['hermes'],
    tau_domains.tools('telecom', tau_domains.AGENT),
    rng,
  )


def _game(name: str) -> Callable[[], base.Env]:
  return functools.partial(gymnasium_text.make, game=name)


def _arena(name: str) -> tuple[Callable[[], base.Env], Callable]:
  return functools.partial(text_arena.make, game=name), text_arena.at_random


def _puzzle(name: str) -> tuple[Callable[[], base.Env], Callable]:
  return functools.partial(reasoning.make, generator=name), reasoning.at_random


# Each: name, what makes it, a policy without a thought, turns, what the oracle
# earns.
CASES: tuple[tuple[Any, ...], ...] = (
  ('Gymnasium, Taxi', _game('taxi'), gymnasium_text.at_random, 30, 1.0),
  (
    'Gymnasium, CliffWalking',
    _game('cliff_walking'),
    gymnasium_text.at_random,
    20,
    1.0,
  ),
  (
    'Gymnasium, FrozenLake, slippery',
    _slippery,
    gymnasium_text.at_random,
    1000,
    14 / 17,
  ),
  (
    'MiniGrid, DoorKey-6x6',
    minigrid_text.make,
    minigrid_text.at_random,
    40,
    1.0,
  ),
  ('reasoning-gym, chain_sum', *_puzzle('chain_sum'), 1, 1.0),
  ('reasoning-gym, mini_sudoku', *_puzzle('mini_sudoku'), 1, 1.0),
  (
    'BFCL, simple_python',
    functools.partial(_held_out, bfcl.make, 400),
    bfcl.at_random,
    1,
    1.0,
  ),
  (
    'BFCL, multi_turn_base',
    functools.partial(_held_out, bfcl_multi_turn.make, 200),
    bfcl_multi_turn.at_random,
    20,
    1.0,
  ),
  ('TextArena, TowerOfHanoi', *_arena('TowerOfHanoi'), 20, 1.0),
  ('TextArena, Mastermind', *_arena('Mastermind'), 20, 1.0),
  (
    'TextWorld, 3 rooms',
    textworld_games.make,
    textworld_games.at_random,
    4,
    1.0,
  ),
  (
    'tau2, telecom',
    functools.partial(
      _held_out, functools.partial(tau.make, domain='telecom'), 114
    ),
    _any_call,
    30,
    1.0,
  ),
)
