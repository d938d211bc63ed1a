"""Groups that weigh differently in the loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl import episode
from arl.methods import compose, grpo
from arl.rollout import pack
from arl.train import weighting


def episodes():
  """Two groups whose rewards differ."""
  made = []
  for one in tiny.episodes(2, 4):
    rewards = np.zeros_like(one.rewards)
    rewards[-1] = one.sample
    made.append(one._replace(rewards=rewards))
  return made


def columns(members, weights):
  groups = weighting.apply(episode.groups(members), weights)
  made = [one for group in groups for one in group.episodes]
  placed = pack.pad(
    made, rows=8, width=12, max_turns=2, extras=[weighting.COLUMN]
  )
  told = {**placed._asdict(), **placed.extras}
  del told['extras']
  rng = np.random.default_rng(0)
  for name in ('logp', 'old_logp'):
    told[name] = jnp.asarray(rng.normal(-1, 0.2, (8, 12)), jnp.float32)
  return told


@jax.jit
def loss_of(told):
  method = weighting.weighed(compose.method(grpo.dapo()))
  credits = method.credit(told)

  def loss(logp):
    made = {**told, 'logp': logp}
    return method.loss(made, credits, method.weigh(made, credits))[0]

  return jax.value_and_grad(loss)(told['logp'])


@pytest.mark.parametrize('weights', [(2.0, 2.0), (0.5, 0.25), (1.0, 0.0)])
def test_the_loss_is_the_weighed_sum_of_its_groups(weights):
  members = episodes()
  parts = [loss_of(columns(members, w)) for w in ((1.0, 0.0), (0.0, 1.0))]
  loss, gradient = loss_of(columns(members, weights))
  want = sum(w * part[0] for w, part in zip(weights, parts))
  np.testing.assert_allclose(loss, want, atol=1e-6)
  want = sum(w * part[1] for w, part in zip(weights, parts))
  np.testing.assert_allclose(gradient, want, atol=1e-6)
  assert np.any(np.asarray(parts[0][1])) and np.any(np.asarray(parts[1][1]))


def test_weight_one_is_no_weight():
  told = columns(episodes(), (1.0, 1.0))
  method = compose.method(grpo.dapo())
  credits = method.credit(told)
  plain = method.loss(told, credits, method.weigh(told, credits))[0]
  np.testing.assert_array_equal(jax.jit(lambda x: loss_of(x)[0])(told), plain)


def test_who_has_no_weight_gets_one():
  (one,) = tiny.episodes(1, 1)
  made = weighting.told(one)
  assert made.extras[weighting.COLUMN].tolist() == [1.0] * len(one.tokens)
  (group,) = weighting.apply(episode.groups([one]), [0.5])
  (again,) = group.episodes
  assert weighting.told(again) is again


def test_when_weights_are_wanted():
  for prompts, wanted in (
    ({}, False),
    ({'scale': 0.5}, True),
    ({'replay': {'name': 'replay.mixture', 'size': 4}}, True),
  ):
    config = tiny.config('some/folder', prompts=prompts)
    assert weighting.wanted(config) == wanted
