"""The environment contract: five pure functions.

A state is an immutable value, so keeping one is a snapshot and stepping from it
again is a restore. Nothing here knows tokens, models or JAX.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from arl import episode

State = Any
TRAIN = 'train'
HELD_OUT = 'held_out'
SPLITS = (TRAIN, HELD_OUT)


class Env(NamedTuple):
  """An environment.

  Attributes:
    task: (split, index) -> Task. Pure: the same arguments give the same task
      for ever. The splits share no task id.
    reset: Task -> State.
    step: (State, action text) -> (State, Turn). A malformed action is an
      observation that says what was wrong, never an exception.
    oracle: State -> action text. Following it earns reward 1.
    noisy: (State, numpy Generator) -> action text. A fallible demonstrator, for
      a supervised warm start.
  """

  task: Callable[[str, int], episode.Task]
  reset: Callable[[episode.Task], State]
  step: Callable[[State, str], tuple[State, episode.Turn]]
  oracle: Callable[[State], str]
  noisy: Callable[[State, np.random.Generator], str]


def play(
  env: Env, task: episode.Task, act: Callable[[State], str], max_turns: int
) -> list[episode.Exchange]:
  """The exchanges of one episode under a policy over states.

  Args:
    env: the environment.
    task: where to start.
    act: maps a state to an action text: `env.oracle`, or a noisy one.
    max_turns: stop after so many actions.
  """
  state, exchanges = env.reset(task), []
  for _ in range(max_turns):
    action = act(state)
    state, turn = env.step(state, action)
    exchanges.append(episode.Exchange(action, turn))
    if turn.done:
      break
  return exchanges
