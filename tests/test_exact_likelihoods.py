"""GARL and PAFT against the exact gradient of the Tsallis loss, in float64.

A prompt, a thought of one token out of three, and a reference answer of one
token out of two, whose likelihood depends on the thought. All groups of
thoughts are enumerated.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl import levels
from arl.kernels import likelihoods
from arl.methods import compose, regression

pytestmark = pytest.mark.usefixtures('x64')

# Scores of the thoughts, and of the two answers after each.
PARAMS = {
  'thought': np.asarray([0.3, -0.2, 0.5]),
  'answer': np.asarray([[1.0, 0.2], [-0.4, 0.6], [0.1, -0.9]]),
}
METHODS = {'garl': regression.garl, 'paft': regression.paft}
QS = (0.0, 0.5, 0.75, 1.0)


def _log_probs(params, thoughts):
  """Log-probs [..., 2] of thoughts and of the reference answer after them."""
  thought = jax.nn.log_softmax(params['thought'])[thoughts]
  answer = jax.nn.log_softmax(params['answer'])[thoughts, 0]
  return jnp.stack([thought, answer], axis=-1)


def _log_likelihood(params):
  """log P of the answer, the thought summed out."""
  every = _log_probs(params, jnp.arange(3))
  return jax.scipy.special.logsumexp(jnp.sum(every, axis=-1))


def _exact(q):
  """The gradient of the Tsallis loss."""
  loss = lambda params: likelihoods.tsallis_loss(_log_likelihood(params), q=q)
  return jax.grad(loss)(PARAMS)


def _columns(params, thoughts):
  shape = (*thoughts.shape, 2)
  rows = np.broadcast_to(np.arange(len(thoughts))[:, None], shape)
  return {
    'mask': jnp.ones(shape, bool),
    'logp': _log_probs(params, thoughts),
    'old_logp': _log_probs(PARAMS, thoughts),
    'rewards': jnp.zeros(shape),
    'answer': jnp.broadcast_to(jnp.asarray([False, True]), shape),
    'seq': levels.Level(jnp.asarray(rows, jnp.int32), len(thoughts)),
    'group': levels.Level(jnp.zeros(shape, jnp.int32), 1),
  }


def _expected(part, size):
  """The mean gradient over groups of `size` thoughts of the policy."""
  method = compose.method(part)
  groups = np.asarray(list(itertools.product(range(3), repeat=size)), np.int32)

  def gradient(thoughts):
    acted = _columns(PARAMS, thoughts)
    credits = method.credit(acted)
    weights = method.weigh(acted, credits)

    def loss(params):
      return method.loss(_columns(params, thoughts), credits, weights)[0]

    chance = jnp.exp(jnp.sum(_log_probs(PARAMS, thoughts)[:, 0]))
    return jax.tree.map(lambda x: chance * x, jax.grad(loss)(PARAMS))

  each = jax.jit(jax.vmap(gradient))(groups)
  return jax.tree.map(functools.partial(jnp.sum, axis=0), each)


def _gap(part, q, size):
  """The largest difference to the exact gradient."""
  gaps = jax.tree.map(
    lambda a, b: jnp.max(jnp.abs(a - b)), _expected(part, size), _exact(q)
  )
  return float(max(gaps.values()))


@pytest.mark.parametrize('size', [1, 2, 3])
@pytest.mark.parametrize('make', METHODS.values(), ids=METHODS)
def test_without_amplification_they_are_exact(make, size):
  assert _gap(make(q=0.0), 0.0, size) < 1e-12


@pytest.mark.parametrize('q', QS[1:])
@pytest.mark.parametrize('make', METHODS.values(), ids=METHODS)
def test_with_it_the_bias_falls_with_the_size_of_a_group(make, q):
  two, four, eight = (_gap(make(q=q), q, size) for size in (2, 4, 8))
  assert two > 1.5 * four > 2.25 * eight > 0
  # In proportion to q / (size P^(q + 1)).
  chance = float(jnp.exp(_log_likelihood(PARAMS)))
  assert eight < 0.1 * q / (8 * chance ** (q + 1))


def test_paft_is_garl_without_its_baseline():
  # Of a group of one, which has none.
  for q in QS:
    one, other = (_expected(make(q=q), 1) for make in METHODS.values())
    for name in PARAMS:
      np.testing.assert_allclose(one[name], other[name], rtol=1e-12)


def test_the_loss_goes_from_likelihood_to_its_logarithm():
  chance = float(jnp.exp(_log_likelihood(PARAMS)))
  for q in QS:
    for name, got in _exact(q).items():
      want = chance**-q * _exact(0.0)[name]
      np.testing.assert_allclose(got, want, rtol=1e-12, err_msg=f'{q} {name}')
