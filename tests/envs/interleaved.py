"""A promise of every environment: a state is a value."""

import hypothesis.strategies as st
import numpy as np


def walk(env, task, actions):
  """Where some actions lead from the start, and the last answer."""
  state, turn = env.reset(task), None
  for action in actions:
    state, turn = env.step(state, action)
  return state, turn


def check(env, task, act, data, most):
  """Branches grow from states kept anywhere, in any order; each is replayed."""
  rng = np.random.default_rng(data.draw(st.integers(0, 99)))
  grown = [(env.reset(task), (), None)]
  for _ in range(data.draw(st.integers(1, most))):
    state, actions, turn = grown[data.draw(st.integers(0, len(grown) - 1))]
    if turn and turn.done:
      continue
    action = act(state, rng)
    after, turn = env.step(state, action)
    grown.append((after, (*actions, action), turn))
  for state, actions, turn in grown:
    assert walk(env, task, actions) == (state, turn)
