"""Tokens left out of a loss: of numerator and denominator, not of baselines."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl.kernels import advantages, aggregations, surrogates
from arl.methods import compose, grpo, terms

# Two sequences of 3 and 5 tokens, as trackers of other projects tell it: the
# token loss is 2, the second is truncated.
LENGTHS = (3, 5)
AGGREGATES = {
  'token': aggregations.token_mean,
  'sequence': aggregations.sequence_mean,
}


def columns(truncated, fill=jnp.nan):
  """The two sequences; `truncated` says which of them were cut off."""
  per = lambda values: worked.per_sequence(values, fill, LENGTHS)
  return {
    'mask': worked.mask(LENGTHS),
    'rewards': worked.at_end([1.0, 0.0], fill, LENGTHS),
    'logp': per([-2.0, -2.0]),
    'old_logp': per([-2.0, -2.0]),
    'ref_logp': per([-1.0, -1.0]),
    'seq': worked.sequences(2, 5),
    'group': worked.one_group(2, 5),
    'turn': worked.sequences(2, 5),
    'truncated': jnp.broadcast_to(jnp.asarray(truncated)[:, None], (2, 5)),
  }


def finished(truncated):
  return ~truncated


def likelihood(aggregate, *riders):
  """-logp of all tokens, as an objective: a loss of 2 a token."""
  return compose.Objective(
    advantage=lambda mask: jnp.where(mask, 1.0, 0.0),
    surrogate=surrogates.reinforce,
    aggregate=aggregate,
    terms=riders,
    monitors=(),
  )


def run(method, batch):
  """(loss, metrics, gradient in logp, credits)."""
  credits = method.credit(batch)
  weights = method.weigh(batch, credits)

  def loss(logp):
    return method.loss({**batch, 'logp': logp}, credits, weights)

  grad = jax.value_and_grad(loss, has_aux=True)
  (total, metrics), gradient = jax.jit(grad)(batch['logp'])
  return total, metrics, gradient, credits


@pytest.mark.parametrize('aggregate', AGGREGATES.values(), ids=AGGREGATES)
@pytest.mark.parametrize(
  'truncated, loss',
  [
    ([False, False], 2.0),
    ([False, True], 2.0),  # left in the denominator it would be 0.75, or 1
    ([True, False], 2.0),
    ([True, True], 0.0),
  ],
)
def test_what_is_left_out_leaves_the_denominator_too(
  aggregate, truncated, loss
):
  kept = compose.only(likelihood(aggregate), finished)
  method = compose.method(kept)
  assert method.needs == {'truncated'}
  total, _, gradient, _ = run(method, columns(truncated))
  np.testing.assert_allclose(total, loss, rtol=1e-6)
  on = worked.mask(LENGTHS) & ~jnp.asarray(truncated)[:, None]
  assert np.all(np.isfinite(gradient))
  np.testing.assert_array_equal(np.asarray(gradient) != 0, on)


def test_riders_are_left_out_alike():
  kl = terms.kl(1.0, kernel=lambda logp, ref_logp: logp - ref_logp)
  whole = likelihood(aggregations.token_mean, kl)
  method = compose.method(compose.only(whole, finished))
  _, metrics, _, _ = run(method, columns([False, True]))
  np.testing.assert_allclose(metrics['loss/policy'], 2, rtol=1e-6)
  np.testing.assert_allclose(metrics['loss/kl'], -1, rtol=1e-6)
  _, metrics, gradient, _ = run(method, columns([True, True]))
  assert float(metrics['loss/kl']) == 0 and not np.any(gradient)


def test_what_is_left_out_still_counts_in_the_baseline():
  objective = grpo.dapo()._replace(advantage=advantages.group_center)
  method = compose.method(compose.only(objective, finished))
  credits = method.credit(columns([False, True]))['policy']
  want = worked.per_sequence([0.5, -0.5], 0.0, LENGTHS)
  np.testing.assert_allclose(credits['advantage'], want, atol=1e-6)
  want = worked.per_sequence([1, 0], 0.0, LENGTHS)
  np.testing.assert_array_equal(credits['kept'], want)


def test_a_token_may_be_kept_by_its_credit():
  objective = likelihood(aggregations.token_mean)._replace(
    advantage=lambda rewards: rewards  # 0 on all tokens but one
  )
  kept = compose.only(objective, lambda advantage: advantage != 0)
  total, _, gradient, _ = run(compose.method(kept), columns([False, False]))
  np.testing.assert_allclose(total, 2, rtol=1e-6)
  assert np.count_nonzero(gradient) == 1


def test_twice_left_out_is_left_out_by_either():
  def long_ago(positions):
    return positions >= 2

  first = compose.only(likelihood(aggregations.token_mean), finished)
  positions = jnp.broadcast_to(jnp.arange(5), (2, 5))
  batch = {**columns([False, True]), 'positions': positions}
  for twice in (
    compose.only(first, long_ago),
    compose.only(
      compose.only(likelihood(aggregations.token_mean), long_ago), finished
    ),
  ):
    total, _, gradient, _ = run(compose.method(twice), batch)
    np.testing.assert_allclose(total, 2, rtol=1e-6)
    np.testing.assert_array_equal(np.argwhere(gradient), [[0, 2]])


def test_an_aggregate_that_reads_no_mask_cannot_leave_out():
  objective = likelihood(lambda seq, rewards: rewards)
  method = compose.method(compose.only(objective, finished))
  batch = columns([False, True])
  with pytest.raises(TypeError, match="'mask'"):
    method.weigh(batch, method.credit(batch))
