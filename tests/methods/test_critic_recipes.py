"""Critics taken out of recipes, and what reward models need."""

import pytest

from arl import methods
from arl.methods import compose, critics


@pytest.mark.parametrize(
  'base, needs',
  [
    ('ppo.vapo', {'value', 'old_value'}),
    ('ppo.bpco', {'value', 'old_value'}),
    ('ppo.categorical', {'value_logits', 'old_value_logits'}),
    ({'name': 'ppo.vc_ppo', 'value_clip': 0.1}, {'value', 'old_value'}),
  ],
)
def test_a_critic_alone_reads_no_policy(base, needs):
  made = critics.alone(base=base)
  assert made.name == 'value' and made.coef == 1
  assert compose.method(made).needs == needs
  assert 'explained' in dict(made.monitors)


def test_what_has_no_critic():
  with pytest.raises(ValueError, match="'grpo.dapo' has no critic"):
    critics.alone(base='grpo.dapo')


def test_ranked_critics_tell_what_they_explain_and_what_is_outside():
  for name in ('ppo.bpco', 'ppo.categorical'):
    (critic,) = methods.make(name).terms
    assert set(dict(critic.monitors)) == {'explained', 'outside'}


def test_vineppo_without_a_penalty():
  assert critics.vineppo(kl_coef=0).terms == ()
  assert len(critics.vineppo().terms) == 1


def test_pairs_are_kept_whole_and_answers_may_be_cut():
  whole = {
    name: compose.method(methods.make(f'reward.{name}')).whole
    for name in ('bt', 'orm', 'prm', 'agent_prm')
  }
  assert whole.pop('bt') == {'group'}
  assert not any(whole.values())
