"""Credit of the turns of a sequence: conservation, locks, evidence."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np

from arl import levels
from arl.kernels import segments

ROWS, WIDTH, TURNS = 4, 8, 3


def batch(seed):
  """Sequences of up to three turns with gaps in their masks."""
  rng = np.random.default_rng(seed)
  turn = np.sort(rng.integers(TURNS, size=(ROWS, WIDTH)), axis=1)
  mask = rng.random((ROWS, WIDTH)) < 0.7
  mask[:, -1] = True
  level = lambda ids, n: levels.Level(jnp.asarray(ids, jnp.int32), n)
  rows = np.arange(ROWS)[:, None]
  return rng, {
    'mask': jnp.asarray(mask),
    'seq': level(rows, ROWS),
    'turn': level(rows * TURNS + turn, ROWS * TURNS),
  }


def ends(columns):
  return np.asarray(levels.last(columns['turn'], columns['mask']))


SOME = hypothesis.settings(max_examples=25, deadline=None)
by_quality = jax.jit(lambda **c: segments.by_quality(**c, most=1e9))
by_feedback = jax.jit(segments.by_feedback)


@hypothesis.given(st.integers(0, 2**20))
@SOME
def test_quality_moves_an_advantage_and_keeps_its_sum_and_sign(seed):
  rng, columns = batch(seed)
  advantage = jnp.asarray(rng.normal(size=(ROWS, 1)))
  quality = jnp.where(ends(columns), rng.random((ROWS, WIDTH)), 0)
  got = np.asarray(
    by_quality(advantage=advantage, process_rewards=quality, **columns)
  )
  tokens = np.asarray(columns['mask']).sum(axis=1)
  np.testing.assert_allclose(
    got.sum(1), np.asarray(advantage)[:, 0] * tokens, rtol=1e-4
  )
  assert np.all(got * np.asarray(advantage) >= 0)


def test_without_quality_or_with_all_of_it_a_failure_is_shared_evenly():
  _, columns = batch(0)
  advantage, full = jnp.full((ROWS, 1), -2.0), ends(columns).astype(float)
  got = segments.by_quality(advantage, jnp.asarray(full), **columns)
  np.testing.assert_array_equal(got, np.where(columns['mask'], -2.0, 0))


def test_no_token_gets_more_than_the_bound():
  columns = {
    'mask': jnp.ones((1, 8), bool),
    'seq': levels.Level(jnp.zeros((1, 1), int), 1),
    'turn': levels.Level(jnp.asarray([[0] + [1] * 7]), 2),
  }
  quality = jnp.asarray([[1.0] + [0.0] * 7])
  got = segments.by_quality(jnp.ones((1, 1)), quality, **columns, most=5.0)
  np.testing.assert_array_equal(got, [[5.0] + [0.0] * 7])


def test_calls_and_answers_do_not_move_each_other():
  rng, columns = batch(1)
  columns['group'] = levels.Level(jnp.zeros((ROWS, 1), int), 1)
  scores = jnp.where(ends(columns), rng.random((ROWS, WIDTH)), 0)
  last = np.asarray(
    segments.closing(*(columns[n] for n in ('mask', 'seq', 'turn')))
  )
  made = []
  for outcome in ([1.0, 0, 0.5, 0], [0, 0.2, 0, 1.0]):
    rewards = jnp.zeros((ROWS, WIDTH)).at[:, -1].set(jnp.asarray(outcome))
    made.append(
      np.asarray(
        segments.locked(rewards=rewards, process_rewards=scores, **columns)
      )
    )
  called = np.asarray(columns['mask']) & ~last
  assert np.any(made[0][called])
  np.testing.assert_array_equal(made[0][called], made[1][called])
  assert np.any(made[0][last] != made[1][last])
  changed = segments.locked(
    rewards=rewards, process_rewards=2 * scores - 0.1, **columns
  )
  np.testing.assert_array_equal(np.asarray(changed)[last], made[1][last])


@hypothesis.given(st.integers(0, 2**20))
@SOME
def test_evidence_tilts_by_the_sign_and_none_changes_nothing(seed):
  rng, columns = batch(seed)
  advantage = jnp.asarray(rng.normal(size=(ROWS, 1)))
  own = jnp.asarray(-rng.random((ROWS, WIDTH)))
  told = own + jnp.asarray(0.3 * rng.normal(size=(ROWS, WIDTH)))
  got = np.asarray(by_feedback(advantage, told, own, **columns))
  plain = np.where(columns['mask'], advantage, 0)
  assert np.all(got * plain >= 0)
  np.testing.assert_allclose(
    by_feedback(advantage, own, own, **columns), plain, rtol=1e-6
  )
  # A turn that is likelier in hindsight has more of a success than another.
  turn = np.asarray(columns['turn'].ids)
  for row in range(ROWS):
    on = np.asarray(columns['mask'])[row]
    gaps = np.asarray(told - own)[row]
    means = {k: gaps[on & (turn[row] == k)].mean() for k in set(turn[row][on])}
    shares = {k: abs(got[row][on & (turn[row] == k)][0]) for k in means}
    sign = np.sign(float(advantage[row, 0]))
    order = sorted(means, key=lambda k: sign * means[k])
    assert all(
      shares[a] <= shares[b] * (1 + 1e-5) for a, b in zip(order, order[1:])
    )
