import functools

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax
import pytest

from arl.train import build, optimizers

PLAIN = {
  'lr': 0.1,
  'warmup': 0,
  'decay': 0,
  'b1': 0.0,
  'b2': 0.0,
  'weight_decay': 0.0,
  'max_norm': 1e9,
}


def adamw(**changes):
  return optimizers.adamw(**{**PLAIN, **changes})


def path(tx, gradients, start=(0.0,)):
  """The parameters after each update."""

  @jax.jit
  def update(params, opt_state, gradient):
    with jax.numpy_dtype_promotion('standard'):
      changes, opt_state = tx.update(gradient, opt_state, params)
    return optax.apply_updates(params, changes), opt_state

  params, seen = jnp.array(start), []
  opt_state = tx.init(params)
  for gradient in gradients:
    params, opt_state = update(params, opt_state, jnp.array(gradient))
    seen.append(np.asarray(params))
  return np.array(seen)


close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)


def rates(tx, count):
  """The learning rate of each update: without moments a step is the sign."""
  return -np.diff(path(tx, [[1.0]] * count)[:, 0], prepend=0)


def test_the_rate_climbs_to_its_peak_and_stays():
  close(rates(adamw(warmup=4), 7), [0, 0.025, 0.05, 0.075, 0.1, 0.1, 0.1])
  close(rates(adamw(), 3), [0.1, 0.1, 0.1])


def test_the_rate_decays_along_a_cosine():
  # 2 updates up, 4 down: cos of 0, 45, 90, 135 and 180 degrees.
  cosine = 0.05 * (1 + np.cos(np.pi * np.arange(5) / 4))
  close(rates(adamw(warmup=2, decay=6), 8), [0, 0.05, *cosine, 0])


def test_the_rate_decays_along_a_line():
  linear = functools.partial(adamw, schedule='schedules.linear')
  rise, fall = [0, 0.05], [0.1, 0.075, 0.05, 0.025, 0, 0]
  close(rates(linear(warmup=2, decay=6), 8), [*rise, *fall])
  close(rates(linear(decay=4), 6), fall)
  close(rates(linear(warmup=2), 4), [*rise, 0.1, 0.1])


def test_a_constant_rate_has_no_decay():
  constant = functools.partial(adamw, schedule='schedules.constant')
  close(rates(constant(warmup=2), 4), [0, 0.05, 0.1, 0.1])
  with pytest.raises(ValueError, match='schedules.constant: decay is 6'):
    constant(decay=6)


def test_an_unknown_schedule_is_refused():
  with pytest.raises(ValueError, match="did you mean 'schedules.linear'"):
    adamw(schedule='schedules.liner')


def test_the_whole_gradient_is_scaled_to_the_norm():
  # Adam hides a scale, except where a moment remembers a smaller gradient.
  gradients = [[0.3, 0.4], [3.0, 4.0]]
  free = path(adamw(b1=0.5, b2=0.5), gradients, [0.0, 0.0])
  bound = path(adamw(b1=0.5, b2=0.5, max_norm=0.5), gradients, [0.0, 0.0])
  same = path(adamw(b1=0.5, b2=0.5), [[0.3, 0.4], [0.3, 0.4]], [0.0, 0.0])
  close(bound, same)
  assert np.abs(free[1] - bound[1]).min() > 1e-3


def test_decay_of_weights_is_decoupled():
  close(path(adamw(weight_decay=0.5), [[0.0]] * 2, [2.0]), [[1.9], [1.805]])


def test_two_steps_by_hand():
  # Corrected moments of a steady gradient are the gradient: a step is the rate.
  close(path(adamw(b1=0.5, b2=0.5), [[2.0]] * 2), [[-0.1], [-0.2]])
  # After 2 and -1 the first moment is 0.5 * 1 + 0.5 * -1.
  close(path(adamw(b1=0.5, b2=0.5), [[2.0], [-1.0]]), [[-0.1], [-0.1]])


@pytest.mark.parametrize('schedule', ['schedules.cosine', 'schedules.linear'])
def test_a_decay_that_ends_before_the_warm_up_is_refused(schedule):
  message = f'{schedule}: decay=5 ends before warmup=10'
  with pytest.raises(ValueError, match=message):
    adamw(warmup=10, decay=5, schedule=schedule)


@pytest.mark.parametrize('missing', PLAIN)
def test_nothing_but_the_schedule_has_a_default(missing):
  keywords = {k: v for k, v in PLAIN.items() if k != missing}
  with pytest.raises(TypeError, match=missing):
    optimizers.adamw(**keywords)


def moved(tx, gradients, state, params):
  """One update by an optimizer: the changes, and its state."""
  with jax.numpy_dtype_promotion('standard'):
    return jax.jit(tx.update)(gradients, state, params)


def both():
  """A policy of two parameters and a critic of one, and their gradients."""
  params = {'w': jnp.array([1.0, 2.0]), 'value_head': {'k': jnp.array([3.0])}}
  return params, jax.tree.map(jnp.ones_like, params)


@pytest.mark.parametrize('every, alone', [(1, 0), (2, 0), (2, 3), (3, 1)])
def test_the_critic_learns_faster_and_before_the_policy(every, alone):
  base = {'name': 'optimizers.adamw', **PLAIN, 'lr': 0.5, 'warmup': 4}
  tx = optimizers.critic_first(base=base, every=every, alone=alone)
  params, gradients = both()
  policy, critic, state = [], [], tx.init(params)
  for _ in range(alone + 3 * every):
    changes, state = moved(tx, gradients, state, params)
    policy.append(float(changes['w'][0]))
    critic.append(float(changes['value_head']['k'][0]))
  # What the critic does alone it does beside the policy, and the policy takes
  # the same way at its own times.
  plain, way = optimizers.adamw(**{**PLAIN, 'lr': 0.5, 'warmup': 4}), []
  state = plain.init(params['w'])
  for _ in critic:
    changes, state = moved(plain, gradients['w'], state, params['w'])
    way.append(float(changes[0]))
  np.testing.assert_allclose(critic, way, rtol=1e-6)
  due = [alone + every * (i + 1) - 1 for i in range(3)]
  np.testing.assert_allclose([policy[i] for i in due], way[:3], rtol=1e-6)
  assert all(x == 0 for i, x in enumerate(policy) if i not in due)


def test_the_critic_has_its_own_norm():
  base = {'name': 'optimizers.adamw', **PLAIN, 'max_norm': 1.0}
  tx = optimizers.critic_first(base=base, every=1, alone=0)
  params, gradients = both()
  gradients['w'] *= 1e6
  _, state = moved(tx, gradients, tx.init(params), params)
  moments = [
    float(x.ravel()[0])
    for path, x in jax.tree_util.tree_leaves_with_path(state)
    if 'mu' in jax.tree_util.keystr(path) and x.shape == (1,)
  ]
  assert moments == [1.0]  # b1 is 0: the critic's gradient, not scaled down


def test_a_critic_that_cannot_come_first_is_refused():
  block = {
    'name': 'optimizers.critic_first',
    'base': {'name': 'optimizers.adamw', **PLAIN},
    'every': 2,
    'alone': 0,
  }
  with pytest.raises(ValueError, match='there is no value head'):
    build.named(ml_collections.ConfigDict(block), 'arl.train').init(
      {'w': jnp.zeros(2)}
    )
  slow = {**block['base'], 'lr': -1.0}
  for key, value in (('every', 0), ('alone', -1), ('base', slow)):
    given = ml_collections.ConfigDict({**block, key: value})
    with pytest.raises(ValueError, match='must be in'):
      build.named(given, 'arl.train')
