"""Kernels bound to columns by name, and what can be read off a kernel."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl import ranges
from arl.kernels import aggregations, divergences, surrogates
from arl.methods import binding, compose, terms


def test_on_reads_another_column():
  kernel = binding.on(divergences.k1, ref_logp='old_logp')
  assert binding.read_by(kernel) == ('logp', 'old_logp')
  assert binding.kernel_name(kernel) == 'k1'
  assert kernel(logp=3.0, old_logp=1.0) == 2.0
  again = binding.on(kernel, logp='ref_logp')
  assert binding.read_by(again) == ('ref_logp', 'old_logp')
  assert again(ref_logp=3.0, old_logp=1.0) == 2.0
  method = compose.method(terms.kl(1.0, to='rollout_logp'))
  assert method.needs == set()


def test_on_may_read_one_column_twice():
  kernel = binding.on(divergences.k1, ref_logp='logp')
  assert binding.read_by(kernel) == ('logp',)
  assert kernel(logp=3.0) == 0.0


def test_on_a_column_that_the_kernel_does_not_read():
  with pytest.raises(ValueError) as caught:
    binding.on(divergences.k3, reflogp='old_logp')
  assert str(caught.value) == (
    "on(k3, reflogp=...): the kernel reads no column 'reflogp'; did you mean"
    " 'ref_logp'?"
  )


def test_hyperparameters_are_bound_before_or_after_on():
  before = binding.on(
    functools.partial(surrogates.clip, low=0.2, high=0.2), advantage='rewards'
  )
  after = functools.partial(
    binding.on(surrogates.clip, advantage='rewards'), low=0.2, high=0.2
  )
  for kernel in (before, after):
    assert binding.read_by(kernel) == ('log_ratio', 'rewards')
    assert binding.kernel_name(kernel) == 'clip'
    log_ratio, rewards = jnp.ones((1, 1)), jnp.ones((1, 1))
    got = kernel(log_ratio=log_ratio, rewards=rewards)
    np.testing.assert_allclose(got, [[1.2]], rtol=1e-6)


def test_a_kernel_reads_what_has_no_value():
  def kernel(logp, mask, *, low, high=2.0):
    return logp

  assert binding.read_by(kernel) == ('logp', 'mask', 'low')
  bound = functools.partial(kernel, low=0.1)
  assert binding.read_by(bound) == ('logp', 'mask')
  assert binding.hyperparameters(bound) == {'low': 0.1}
  assert binding.hyperparameters(kernel) == {}


def test_the_outermost_value_of_a_name_counts():
  inner = functools.partial(surrogates.clip, low=0.1, high=0.3)
  outer = functools.partial(binding.on(inner, advantage='rewards'), low=0.2)
  assert binding.hyperparameters(outer) == {'low': 0.2, 'high': 0.3}


def test_layers_lead_to_the_function_through_all_that_wraps_it():
  inner = functools.partial(surrogates.clip, low=0.1, high=0.3)
  renamed = binding.on(inner, advantage='rewards')
  outer = functools.partial(renamed)
  found = list(binding.layers(outer))
  assert found == [outer, renamed, inner, surrogates.clip]
  for kernel in (*found, jax.jit(surrogates.clip)):
    assert binding.function_of(kernel) is surrogates.clip
    assert binding.kernel_name(kernel) == 'clip'
  kept = compose.on_kept(functools.partial(aggregations.constant, length=3))
  assert binding.function_of(kept) is aggregations.constant
  assert binding.hyperparameters(kept) == {'length': 3}
  assert binding.read_by(kept) == ('mask', 'seq', 'kept')


def test_what_is_declared_is_what_is_read():
  def kernel(**columns):
    return columns['logp']

  binding.declare(kernel, ['logp', 'mask'])
  assert binding.read_by(kernel) == ('logp', 'mask')
  assert binding.read_by(binding.on(kernel, logp='ref_logp')) == (
    'ref_logp',
    'mask',
  )


def _kernel(logp, *, low: ranges.Fraction, steps: ranges.Count = 1):
  return logp


@pytest.mark.parametrize(
  'kernel, message',
  [
    (functools.partial(_kernel, low=2), 'low is 2; it must be in [0, 1].'),
    (
      binding.on(functools.partial(_kernel, low=2), logp='old_logp'),
      'low is 2; it must be in [0, 1].',
    ),
    (
      functools.partial(functools.partial(_kernel, low=0.1), low=2),
      'low is 2; it must be in [0, 1].',
    ),
    (
      functools.partial(_kernel, low=0.1, steps=0),
      'steps is 0; it must be in [1, inf).',
    ),
  ],
)
def test_numbers_out_of_range_through_all_that_wraps_a_kernel(kernel, message):
  with pytest.raises(ValueError) as caught:
    binding.check_ranges('here', kernel)
  assert str(caught.value) == f"here: kernel '_kernel': {message}"


def test_a_number_that_is_bound_anew_counts_alone():
  inner = functools.partial(_kernel, low=2)
  binding.check_ranges('here', functools.partial(inner, low=0.5))
