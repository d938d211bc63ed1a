"""How a composed method runs: steps, masks, corrections, monitors, metrics."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl.kernels import advantages, aggregations, ratios
from arl.methods import binding, compose, grpo, reinforce, terms


def _value(method, columns=None):
  columns = columns or worked.batch()
  credits = method.credit(columns)
  weights = method.weigh(columns, credits)
  return method.loss(columns, credits, weights)


def _gradient(method, columns):
  credits = method.credit(columns)
  weights = method.weigh(columns, credits)
  return jax.jit(
    jax.grad(lambda x: method.loss({**columns, 'logp': x}, credits, weights)[0])
  )(columns['logp'])


def test_a_result_of_another_shape_is_refused():
  def short(logp):
    return jnp.sum(logp, axis=1)

  method = compose.method(
    compose.Term('mine', (('loss', short),), aggregations.token_mean)
  )
  with pytest.raises(ValueError) as caught:
    jax.eval_shape(lambda: _value(method))
  assert str(caught.value) == (
    "kernel 'short' gave (4,) for 'loss', wanted (4, 3)."
  )


def test_a_column_of_another_shape_is_refused():
  columns = {**worked.batch(), 'old_logp': jnp.zeros(3)}
  want = "column 'old_logp' is (3,), wanted (4, 3) as the mask, or a scalar."
  with pytest.raises(ValueError, match=re.escape(want)):
    compose.visible(columns)


def test_kernels_see_zeros_off_the_mask():
  columns = {
    'mask': worked.mask(),
    'logp': worked.column(worked.LOGP, jnp.nan),
    'topk': jnp.full((4, 3, 2), jnp.nan),
    'tokens': jnp.full((4, 3), 7),
    'knob': jnp.float32(3.0),
    'seq': worked.sequences(),
  }
  seen = compose.visible(columns)
  off = ~np.asarray(worked.mask())
  assert not np.any(seen['logp'][off]) and not np.any(seen['topk'][off])
  assert np.all(np.isnan(seen['topk'][~off]))
  for name in ('tokens', 'knob', 'seq'):
    assert seen[name] is columns[name]


def test_what_a_kernel_makes_of_the_zeros_does_not_matter():
  def inverse(logp):
    return 1 / logp  # inf where a kernel sees no token

  part = compose.Term('mine', (('loss', inverse),), aggregations.token_mean)
  method, columns = compose.method(part), worked.batch()
  logp = np.concatenate(worked.LOGP)
  loss, _ = _value(method, columns)
  np.testing.assert_allclose(loss, np.mean(1 / logp), rtol=1e-5)
  want = worked.column([[-1 / x**2 / 9 for x in row] for row in worked.LOGP])
  np.testing.assert_allclose(_gradient(method, columns), want, rtol=1e-5)


def test_terms_add_up_with_their_factors():
  columns = worked.batch()
  whole = compose.method(grpo.grpo(kl_coef=0.5), terms.entropy(0.1))
  loss, metrics = jax.jit(functools.partial(_value, whole))(columns)
  names = ('loss/policy', 'loss/kl', 'loss/entropy')
  parts = [float(metrics[name]) for name in names]
  np.testing.assert_allclose(loss, sum(parts), rtol=1e-6)
  np.testing.assert_allclose(parts[0], -0.018778, atol=2e-6)
  np.testing.assert_allclose(parts[2], -0.075, rtol=1e-6)


def _frozen(method, columns):
  credits = method.credit(columns)
  return credits, method.weigh(columns, credits)


def test_credit_and_weights_ignore_the_policy():
  method, columns = compose.method(grpo.grpo()), worked.batch()
  spoiled = {**columns, 'logp': jnp.full((4, 3), jnp.nan)}
  for a, b in zip(
    jax.tree.leaves(_frozen(method, columns)),
    jax.tree.leaves(_frozen(method, spoiled)),
    strict=True,
  ):
    np.testing.assert_array_equal(a, b)


def test_weights_may_read_what_the_credit_of_their_term_gave():
  def importance(rewards):
    return jnp.abs(rewards)

  part = reinforce.rloo()._replace(
    advantage=(
      ('importance', importance),
      ('advantage', advantages.group_center),
    ),
    aggregate=aggregations.weighted,
  )
  method, columns = compose.method(part), worked.batch()
  credits, weights = _frozen(method, columns)
  want = worked.at_end([x / 1.8 for x in worked.REWARDS])
  np.testing.assert_allclose(weights['policy'], want, atol=1e-6)
  tokens = jnp.sum(columns['mask'], dtype=float)
  np.testing.assert_allclose(weights['metrics'] * tokens, 1, rtol=1e-6)
  loss, _ = method.loss(columns, credits, weights)
  each = want * worked.column(worked.LOGP) * credits['policy']['advantage']
  np.testing.assert_allclose(loss, -jnp.sum(each), rtol=1e-5)


def test_weights_of_one_term_do_not_read_the_credit_of_another():
  rider = terms.imitation(aggregate=aggregations.weighted)
  with pytest.raises(ValueError, match="reads 'importance' in its aggregate"):
    compose.method(
      grpo.dapo()._replace(
        advantage=(
          ('importance', lambda rewards: rewards),
          ('advantage', advantages.group_center),
        ),
      ),
      rider,
    )


def test_later_steps_read_what_earlier_ones_gave():
  twice = lambda rewards: 2 * rewards
  part = reinforce.rloo()._replace(
    advantage=(('rewards', twice), ('advantage', advantages.group_center))
  )
  credits = compose.method(part).credit(worked.batch())
  want = worked.per_sequence([1.1, -0.5, -0.9, 0.3])
  np.testing.assert_allclose(credits['policy']['advantage'], want, atol=1e-6)


def test_the_anchor_of_a_ratio_can_be_another_policy():
  part = grpo.dapo()._replace(
    ratio=binding.on(ratios.token, old_logp='rollout_logp')
  )
  method, columns = compose.method(part), worked.batch()
  assert method.needs == set()
  shifted = columns['logp'] - jnp.float32(0.25)
  loss, metrics = _value(method, {**columns, 'rollout_logp': shifted})
  np.testing.assert_allclose(metrics['policy/ratio'], np.exp(0.25), rtol=1e-6)


def test_corrections_multiply_and_carry_no_gradient():
  def lean(logp):
    return jnp.exp(logp)

  def double(mask):
    return jnp.where(mask, 2.0, 0.0)

  columns = worked.batch()
  free = reinforce.rloo()
  corrected = free._replace(corrections=(lean, double))
  plain = _gradient(compose.method(free), columns)
  got = _gradient(compose.method(corrected), columns)
  factor = 2 * jnp.exp(worked.column(worked.LOGP))
  np.testing.assert_allclose(got, factor * plain, rtol=1e-5)


def test_a_correction_may_read_the_ratio():
  def cut(log_ratio):
    return jnp.where(jnp.abs(log_ratio) < 0.2, 1.0, 0.0)

  part = reinforce.rloo()._replace(corrections=(cut,))
  method, columns = compose.method(part), worked.batch()
  assert method.needs == {'old_logp'}
  kept = np.asarray(_gradient(method, columns)) != 0
  inside = np.abs(np.asarray(worked.column(worked.LOG_RATIO, 9.0))) < 0.2
  np.testing.assert_array_equal(kept, inside)


def test_monitors_follow_what_the_objective_has():
  def doubled(advantage):
    return 2 * advantage

  part = reinforce.rloo()
  monitors = (*part.monitors, ('doubled', doubled))
  method = compose.method(part._replace(monitors=monitors))
  metrics = jax.eval_shape(lambda: _value(method))[1]
  assert metrics.keys() == {'loss/policy', 'loss/total', 'policy/doubled'}
  with_ratio = grpo.dapo()._replace(monitors=monitors)
  metrics = jax.eval_shape(lambda: _value(compose.method(with_ratio)))[1]
  assert metrics.keys() == {
    'loss/policy',
    'loss/total',
    'policy/ratio',
    'policy/kl',
    'policy/clip_fraction',
    'policy/doubled',
  }


def test_an_anchor_that_is_the_policy_itself_still_gives_a_gradient():
  method, columns = compose.method(grpo.dapo()), worked.batch()
  credits = method.credit(columns)
  weights = method.weigh(columns, credits)

  def loss(logp):
    both = {**columns, 'logp': logp, 'old_logp': logp}
    return method.loss(both, credits, weights)[0]

  got = jax.jit(jax.grad(loss))(columns['logp'])
  want = -weights['policy'] * credits['policy']['advantage']
  np.testing.assert_allclose(got, want, rtol=1e-6)
