"""Corrections of rollouts that run ahead are one argument; none runs none."""

import pytest

from arl.train import build
from experiments import asynchronous, quickstart, sao


@pytest.mark.parametrize('name', asynchronous.CORRECTIONS)
def test_each_correction_runs_ahead(name):
  config = asynchronous.get_config(f'correction={name}')
  build.check(config)
  assert config.rollout.ahead == 2
  assert config.method.to_dict() == asynchronous.CORRECTIONS[name]


def test_without_a_correction_nothing_runs_ahead():
  config = asynchronous.get_config('correction=none')
  plain = quickstart.get_config()
  assert config.rollout.ahead == config.prompts.in_flight == 0
  plain.rollout.strategy = 'asynchronous.multi_turn'
  assert config == plain
  config = asynchronous.get_config()
  config.method = plain.method
  with pytest.raises(ValueError, match='config.rollout.ahead is 2, but grpo'):
    build.check(config)


def test_an_unknown_correction_is_refused():
  with pytest.raises(ValueError, match='correction=x: known are tis, decoup'):
    asynchronous.get_config('correction=x')


def test_single_rollouts_are_as_many_and_the_critic_leads():
  config, plain = sao.get_config(), quickstart.get_config()
  assert config.prompts.batch == plain.prompts.batch * plain.prompts.samples
  batches = config.optimizer.alone / config.updates.epochs
  assert config.steps - batches == plain.steps
  assert config.optimizer.every == config.updates.epochs == 2
