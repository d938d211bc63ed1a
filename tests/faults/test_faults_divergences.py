"""Known faults of divergences: what they pull to, and where they count."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest

import arl
from arl.kernels import divergences, returns, surrogates
from arl.methods import terms

pytestmark = pytest.mark.usefixtures('compiled_once')

KERNELS = {
  'k1': divergences.k1,
  'k2': divergences.k2,
  'k3': divergences.k3,
  'k3_plus': divergences.k3_plus,
  'k3_unbiased': divergences.k3_unbiased,
}


@functools.cache
def expected(name):
  """(logits, ref) -> value and gradient of a KL term, exactly over actions.

  The tokens are enumerated and weigh by their probability; what is counted is
  the gradient that the implementation gives for each.
  """
  method = arl.method(terms.kl(1.0, kernel=KERNELS[name]))

  def of_action(logits, ref, action):
    logp = jax.nn.log_softmax(logits)[action]
    one = {
      'mask': jnp.array([[True]]),
      'logp': logp[None, None],
      'old_logp': jax.lax.stop_gradient(logp)[None, None],
      'ref_logp': ref[action][None, None],
    }
    return method.loss(one, {'kl': {}}, method.weigh(one, {'kl': {}}))[0]

  @jax.jit
  def run(logits, ref):
    chances = jax.nn.softmax(logits)
    made = [
      jax.value_and_grad(of_action)(logits, ref, a) for a in range(len(logits))
    ]
    values = jnp.stack([v for v, _ in made])
    slopes = jnp.stack([g for _, g in made])
    return chances @ values, chances @ slopes

  return run


@pytest.mark.parametrize(
  'name, value, slope',
  [
    ('k1', 0.19274, 0.0),
    ('k2', 0.17232, 0.22181),
    ('k3', 0.19274, 0.3),
    ('k3_plus', 0.19274, 0.22181),
    ('k3_unbiased', 0.19274, 0.22181),
  ],
)
def test_31_what_each_estimator_pulls_to(name, value, slope):
  found = expected(name)(jnp.log(jnp.float32([0.8, 0.2])), jnp.log(
    jnp.float32([0.5, 0.5])
  ))  # fmt: skip
  np.testing.assert_allclose(found[0], value, atol=1e-5)
  np.testing.assert_allclose(found[1][0], slope, atol=1e-5)


def exact(logits, ref, turned=False):
  p, q = jax.nn.log_softmax(logits), ref
  p, q = (q, p) if turned else (p, q)
  return jnp.sum(jnp.exp(p) * (p - q))


WANTED = jax.jit(jax.grad(exact), static_argnums=2)
BACKWARD = {'k1': None, 'k2': False, 'k3': True, 'k3_plus': False,
            'k3_unbiased': False}  # fmt: skip


@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(
  st.sampled_from([*KERNELS]),
  st.lists(st.floats(-3, 3, width=32), min_size=3, max_size=3),
  st.lists(st.floats(-3, 3, width=32), min_size=3, max_size=3),
)
def test_31_of_any_distributions(name, logits, ref):
  logits = jnp.float32(logits)
  ref = jax.nn.log_softmax(jnp.float32(ref))
  value, slope = expected(name)(logits, ref)
  want = (
    jnp.zeros(3)
    if BACKWARD[name] is None
    else WANTED(logits, ref, BACKWARD[name])
  )
  np.testing.assert_allclose(slope, want, atol=2e-4)
  assert value >= -1e-5
  if name != 'k2':
    np.testing.assert_allclose(value, exact(logits, ref), atol=2e-4)


def one_step(logp, ref):
  """Columns of a single sampled token that earned 1."""
  batch = plain.said([1], width=2)
  fill = lambda x: np.float32([[0, x]])
  return {**batch, 'rewards': fill(1), 'logp': fill(logp),
          'old_logp': fill(logp), 'ref_logp': fill(ref)}  # fmt: skip


RETURNS = arl.Objective(
  advantage=returns.reward_to_go,
  surrogate=functools.partial(surrogates.clip, low=0.2, high=0.2),
  aggregate=arl.make('grpo.dapo').aggregate,
)
PLACES = {
  'off': lambda beta: RETURNS,
  'in the reward': lambda beta: arl.make(
    'ppo.penalized', base=RETURNS, coef=beta
  ),
  'in the loss': lambda beta: RETURNS._replace(terms=(terms.kl(beta),)),
}


def parts(made, logp=-1.0, ref=-1.5):
  """The summands of the loss of one token, and its advantage."""
  method = arl.method(made)
  batch = one_step(logp, ref)
  credits = method.credit(batch)
  _, metrics = method.loss(batch, credits, method.weigh(batch, credits))
  told = {k: float(x) for k, x in metrics.items() if k.startswith('loss/')}
  return told, float(credits['policy']['advantage'][0, 1])


@pytest.mark.parametrize(
  'place, earned, kl, changed',
  [
    ('off', 1.0, None, 0),
    ('in the reward', 0.9, None, 1),
    ('in the loss', 1.0, 0.2 * 0.10653, 1),
  ],
)
def test_32_the_kl_counts_once_and_lowers_what_is_earned(
  place, earned, kl, changed
):
  told, advantage = parts(PLACES[place](0.2))
  np.testing.assert_allclose(advantage, earned, rtol=1e-6)
  if kl is None:
    assert 'loss/kl' not in told
  else:
    np.testing.assert_allclose(told['loss/kl'], kl, atol=1e-6)
  without, _ = parts(PLACES[place](0.0))
  moved = [k for k in told if k != 'loss/total' and told[k] != without[k]]
  assert len(moved) == changed
  assert (told['loss/total'] > without['loss/total']) == bool(changed)


@pytest.mark.parametrize('place', ['in the reward', 'in the loss'])
def test_32_further_from_the_reference_costs_more(place):
  near, far = (parts(PLACES[place](0.2), ref=r)[0] for r in (-1.5, -2.5))
  assert far['loss/total'] > near['loss/total']
  same, advantage = parts(PLACES[place](0.2), ref=-1.0)
  assert advantage == 1 and same.get('loss/kl', 0) == 0


def test_32_without_a_kl_no_reference_is_asked_for():
  assert 'ref_logp' in arl.method(arl.make('grpo.grpo')).needs
  assert 'ref_logp' not in arl.method(arl.make('grpo.grpo', kl_coef=0)).needs
