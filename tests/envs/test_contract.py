"""The contract of environments: splits, and what a step may answer."""

from typing import Any

import numpy as np
import pytest

from arl import episode
from arl.envs import base


def test_split_is_stable():
  # sha256('abc') starts with 0xba, that of 'd' with 0x18.
  assert base.split_of('abc') == 'train'
  assert base.split_of('d') == 'held_out'
  share = np.mean([base.split_of(str(i)) == base.HELD_OUT for i in range(4000)])
  assert abs(share - 0.25) < 0.03


def stub(step):
  """An environment of which only step and reset matter."""
  return base.Env(
    task=lambda split, index: episode.Task(f'{split}/{index}', '', {}),
    reset=lambda task: 0,
    step=step,
    oracle=lambda state: '',
    noisy=lambda state, rng: '',
  )


def bad_turn(*fields: Any) -> episode.Turn:
  return episode.Turn(*fields)


@pytest.mark.parametrize(
  'answer, failure, sentence',
  [
    (None, base.EnvironmentFailure, r'returned NoneType; return \(state, Turn'),
    ((1, 'text'), base.EnvironmentFailure, 'returned str as its turn'),
    ((1, bad_turn(b'no')), base.EnvironmentFailure, 'of type bytes'),
    ((1, bad_turn(None)), base.EnvironmentFailure, 'of type NoneType'),
    ((1, bad_turn('', float('nan'))), base.RewardFailure, 'reward nan'),
    ((1, bad_turn('', float('inf'))), base.RewardFailure, 'reward inf'),
    ((1, bad_turn('', None)), base.RewardFailure, 'reward None'),
    ((1, bad_turn('', '1')), base.RewardFailure, "reward '1'"),
    ((1, bad_turn('', True)), base.RewardFailure, 'reward True'),
    (
      (1, bad_turn('', 0.0, False, float('nan'))),
      base.RewardFailure,
      'scored its step nan',
    ),
    ((1, bad_turn('', 0.0, False, '1')), base.RewardFailure, "its step '1'"),
  ],
)
def test_checked_step_refuses(answer, failure, sentence):
  with pytest.raises(failure, match=sentence):
    base.checked_step(stub(lambda state, text: answer), 0, 'go')


def test_checked_step_names_what_was_raised():
  def step(state, text):
    raise KeyError('gone')

  with pytest.raises(base.EnvironmentFailure, match='KeyError on .*go') as info:
    base.checked_step(stub(step), 0, 'go')
  assert isinstance(info.value.__cause__, KeyError)


@pytest.mark.parametrize(
  'failure', [base.RewardFailure, base.EnvironmentFailure]
)
def test_checked_step_passes_failures_on(failure):
  def step(state, text):
    raise failure('the verifier timed out')

  with pytest.raises(failure, match='the verifier timed out'):
    base.checked_step(stub(step), 0, 'go')


@pytest.mark.parametrize('reward', [0, 1, -0.5, np.float32(0.5)])
def test_checked_step_hands_a_good_turn_through(reward):
  answer = (1, episode.Turn('seen', reward))
  assert base.checked_step(stub(lambda state, text: answer), 0, 'go') is answer


def test_checked_reset():
  env = stub(None)._replace(reset=lambda task: 1 / 0)
  with pytest.raises(
    base.EnvironmentFailure, match='ZeroDivisionError on task'
  ):
    base.checked_reset(env, env.task(base.TRAIN, 0))
  assert base.checked_reset(stub(None), env.task(base.TRAIN, 0)) == 0
