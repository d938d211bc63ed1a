"""Packed or padded: the same log-probs, losses and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import arl
from arl import episode, types
from arl.methods import grpo, sequence
from arl.models import heads
from arl.rollout import pack

METHODS = {
  'dapo': arl.method(grpo.dapo(low=0.05, high=0.05)),
  'gspo': arl.method(sequence.gspo(low=0.01, high=0.01)),
}


def row(tokens, name='x', seed=0):
  """An episode whose second half is an action; log-probs near uniform."""
  n = len(tokens)
  rng = np.random.default_rng([seed, n])
  mask = np.arange(n) >= (n + 1) // 2
  return episode.Episode(
    task=episode.Task(name, '', {}),
    sample=seed,
    tokens=np.array(tokens, np.int32),
    mask=mask,
    logp=np.where(mask, -3.5 + rng.normal(size=n), 0).astype(np.float32),
    rewards=np.where(np.arange(n) == n - 1, rng.random(), 0).astype(np.float32),
    turn=np.zeros(n, np.int32),
    status=episode.FINISHED,
  )


def placed(how, episodes):
  batch = how(episodes, rows=6, width=16, max_turns=1)
  columns = types.columns(batch)
  return {**columns, 'old_logp': columns['rollout_logp']}


@pytest.fixture(scope='module')
def logp(tiny):
  """logp [B, T] of columns under parameters."""
  model, _ = tiny

  def compute(params, columns):
    hidden = model.apply(
      params, columns['tokens'], columns['positions'], columns['segments']
    )
    made = heads.columns(model, params, hidden, columns['tokens'], {'logp'})
    return made['logp']

  return jax.jit(compute)


def of_episode(column, columns, i):
  """The values of episode i, without its first token: nothing predicts it."""
  at = (columns['seq'].ids == i) & (columns['segments'] > 0)
  return np.array(column)[at][1:]


@pytest.mark.parametrize('name', METHODS)
def test_losses_and_gradients(tiny, logp, name):
  _, params = tiny
  method = METHODS[name]
  rng = np.random.default_rng(4)
  episodes = [
    row(rng.integers(0, 32, n), 'xyz'[i // 2], i)
    for i, n in enumerate([9, 4, 16, 7, 3, 5])
  ]

  @jax.jit
  def run(params, columns):
    def loss(params):
      made = {**columns, 'logp': logp(params, columns)}
      credits = method.credit(columns)
      return method.loss(made, credits, method.weigh(columns, credits))

    return jax.value_and_grad(loss, has_aux=True)(params)

  (padded, facts), gradient = run(params, placed(pack.pad, episodes))
  packed = placed(pack.pack, episodes)
  assert packed['segments'].max() > 1
  (value, others), other = run(params, packed)
  np.testing.assert_allclose(value, padded, atol=1e-5)
  np.testing.assert_allclose(value, others['loss/total'], atol=1e-7)
  assert abs(value) > 1e-3 and others['policy/clip_fraction'] > 0
  for key, fact in facts.items():
    np.testing.assert_allclose(others[key], fact, atol=1e-5, err_msg=key)
  assert max(jnp.abs(x).max() for x in jax.tree.leaves(gradient)) > 1e-2
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), other, gradient
  )


@pytest.fixture(scope='module')
def pair():
  """A = [1, 2, 3] and B = [4, 5] in a row, padding behind them."""
  return placed(pack.pack, [row([1, 2, 3]), row([4, 5])])


def test_neighbors_in_a_row(tiny, logp, pair):
  _, params = tiny
  assert pair['segments'][0, :7].tolist() == [1, 1, 1, 2, 2, 0, 0]
  assert pair['positions'][0, :7].tolist() == [0, 1, 2, 0, 1, 0, 0]
  assert pair['mask'][0, :7].tolist() == [0, 0, 1, 0, 1, 0, 0]
  together = of_episode(logp(params, pair), pair, 1)
  other = placed(pack.pack, [row([7, 8, 9]), row([4, 5])])
  np.testing.assert_array_equal(
    of_episode(logp(params, other), other, 1), together
  )
  alone = placed(pack.pad, [row([4, 5])])
  np.testing.assert_allclose(
    of_episode(logp(params, alone), alone, 0), together, atol=1e-5
  )


def test_no_gradient_crosses_a_border(tiny, logp, pair):
  _, params = tiny

  @jax.jit
  @jax.grad
  def of_b(params):
    made = jnp.where(pair['mask'], logp(params, pair), 0)
    return jnp.sum(jnp.where(pair['seq'].ids == 1, made, 0))

  table = np.abs(of_b(params)['embed']['embedding']).max(axis=1)
  assert (table > 0).tolist() == [i == 4 for i in range(32)]
