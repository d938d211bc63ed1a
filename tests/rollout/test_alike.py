"""Copies among independent rollouts: which are told of."""

import warnings

import numpy as np
import pytest

from arl import episode
from arl.rollout import alike


def rolled(task, tokens, nats):
  """An episode whose tokens have a probability of exp(-nats)."""
  n = len(tokens)
  return episode.Episode(
    task=episode.Task(task, '', {}),
    sample=0,
    tokens=np.array(tokens, np.int32),
    mask=np.arange(n) > 0,
    logp=np.where(np.arange(n) > 0, -nats / (n - 1), 0).astype(np.float32),
    rewards=np.zeros(n, np.float32),
    turn=np.zeros(n, np.int32),
    status=episode.FINISHED,
  )


def heard(episodes, temperature=1.0):
  with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter('always')
    alike.warn(episodes, temperature)
  return [str(each.message) for each in told]


ONE, OTHER = [1, 2, 3], [1, 2, 4]


@pytest.mark.parametrize(
  'episodes, temperature, told',
  [
    ([rolled('a', ONE, 30), rolled('a', ONE, 30)], 1.0, 1),
    ([rolled('a', ONE, 20), rolled('a', ONE, 20)], 1.0, 0),
    ([rolled('a', ONE, 30), rolled('a', ONE, 30)], 0.0, 0),
    ([rolled('a', ONE, 30), rolled('a', OTHER, 30)], 1.0, 0),
    ([rolled('a', ONE, 30), rolled('b', ONE, 30)], 1.0, 0),
    ([rolled('a', ONE, 30)] * 9, 1.0, 1),
    ([], 1.0, 0),
  ],
)
def test_copies_that_are_no_chance_are_told_once(episodes, temperature, told):
  assert len(heard(episodes, temperature)) == told


def test_the_message_says_whose_and_how_unlikely():
  (message,) = heard([rolled('t/7', ONE, 30), rolled('t/7', ONE, 30)])
  assert message.startswith(
    "two rollouts of task 't/7' hold the same 2 tokens, of which the chance is"
    ' exp(-30): '
  )
