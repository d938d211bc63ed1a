"""The ratio to the policy that sampled is counted once."""

import pytest

from arl import methods
from arl.methods import compose

WEIGHTS = (
  'tis', 'tis_sequence', 'tis_normalized', 'mis', 'mis_product', 'mis_mean',
  'mis_largest', 'icepop', 'decoupled_ppo', 'two_level',
)  # fmt: skip
MASKS = ('opsm', 'drop_stale')
DIRECT = (
  'offpolicy.dis', 'offpolicy.anchored', 'offpolicy.estr', 'soft.topr',
  'soft.dppo', 'soft.dppo_kl', 'ppo.sao', 'ppo.bpco',
)  # fmt: skip


@pytest.mark.parametrize('base', DIRECT)
@pytest.mark.parametrize('name', WEIGHTS)
def test_a_weight_over_a_ratio_that_has_it(name, base):
  made = methods.make(f'offpolicy.{name}', base=base)
  with pytest.raises(ValueError, match='each count the ratio to the policy'):
    compose.method(made)


@pytest.mark.parametrize('first', WEIGHTS)
def test_two_weights(first):
  made = methods.make('offpolicy.tis', base=f'offpolicy.{first}')
  with pytest.raises(ValueError, match="'truncated' each count|and 'trunc"):
    compose.method(made)


@pytest.mark.parametrize('base', (*DIRECT, 'offpolicy.tis', 'grpo.dapo'))
@pytest.mark.parametrize('name', MASKS)
def test_what_only_drops_goes_with_anything(name, base):
  compose.method(methods.make(f'offpolicy.{name}', base=base))


def test_anchoring_twice_is_anchoring_once():
  once = methods.make('offpolicy.anchored')
  assert methods.make('offpolicy.anchored', base=once) is once


@pytest.mark.parametrize(
  'base', ['terms.imitation', 3, {'name': 'ppo.mc_value'}]
)
def test_a_base_that_is_no_objective(base):
  with pytest.raises(TypeError, match='it must be an Objective, or the name'):
    methods.make('offpolicy.tis', base=base)


def test_an_anchored_ratio_that_nothing_reads_counts_nothing():
  made = methods.make('offpolicy.tis', base='reinforce.rloo')
  compose.method(methods.make('offpolicy.anchored', base=made))
