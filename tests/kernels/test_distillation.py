"""What a teacher says: literal numbers are in tests/golden, ends are here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl import levels
from arl.kernels import distillation, teaching

RNG = np.random.default_rng(0)
OWN, TEACHER, REFERENCE = -RNG.exponential(size=(3, 4, 6)).astype(np.float32)
MASK = np.arange(6)[None] < np.array([6, 4, 3, 0])[:, None]
TURNS = np.array(
  [[0, 0, 1, 1, 2, 2], [3, 3, 3, 4, 0, 0], [5, 5, 5, 0, 0, 0], [6] * 6],
  np.int32,
)


def _seq():
  return worked.sequences(4, 6)


def _turn():
  return levels.level(TURNS, 7)


def test_a_token_that_the_teacher_rules_out_costs_the_most():
  own, theirs = jnp.asarray([[-1.0, -1.0]]), jnp.asarray([[-jnp.inf, -2.0]])
  got = distillation.reverse_kl(own, theirs)
  np.testing.assert_array_equal(got, [[-10, -1]])
  got = distillation.reverse_kl(own, theirs, most=3.0)
  np.testing.assert_array_equal(got, [[-3, -1]])
  got = distillation.extrapolated(own, theirs, theirs)
  np.testing.assert_array_equal(got, [[-10, -1]])


def test_what_neither_could_say_is_no_gap():
  never = jnp.full((1, 1), -jnp.inf)
  np.testing.assert_array_equal(distillation.gap(never, never), [[0]])
  assert not np.any(distillation.extrapolated(never, never, never))


def test_at_scale_one_the_reference_does_not_matter():
  one = distillation.extrapolated(OWN, TEACHER, REFERENCE, scale=1.0)
  other = distillation.extrapolated(OWN, TEACHER, 2 * REFERENCE, scale=1.0)
  np.testing.assert_array_equal(one, other)
  np.testing.assert_array_equal(one, distillation.reverse_kl(OWN, TEACHER))


def test_the_policy_as_its_own_teacher_says_nothing():
  assert not np.any(distillation.reverse_kl(OWN, OWN))
  np.testing.assert_array_equal(distillation.trust(OWN, OWN), 1)


def test_a_task_has_the_teacher_that_it_is_given_to():
  every = jnp.stack([OWN, TEACHER], axis=-1)
  which = np.array([[0, 1, 0, 1, 5, -1]] * 4, np.int32)
  got = distillation.routed(every, jnp.asarray(which))
  np.testing.assert_array_equal(got, np.where(which > 0, TEACHER, OWN))


@pytest.mark.parametrize('unsure', [0.0, 0.2, 0.5, 1.0])
def test_the_tokens_of_the_highest_entropy(unsure):
  entropy = np.where(MASK, -OWN, 1e9).astype(np.float32)
  got = distillation.reopold_kept(
    OWN, TEACHER, entropy, jnp.asarray(0.5), MASK, unsure=unsure
  )
  bound = np.float32(np.quantile(-OWN[MASK], 1 - unsure)) - 1e-6
  np.testing.assert_array_equal(got, MASK & (entropy >= bound))


def test_no_token_is_no_quantile():
  got = distillation.reopold_kept(
    OWN, TEACHER, -OWN, jnp.asarray(0.5), np.zeros_like(MASK)
  )
  assert not np.any(got)


def test_how_often_a_token_is_inside_is_its_trust():
  noise = np.linspace(0, 1, 10001, dtype=np.float32)[None, :-1]
  own = np.full_like(noise, np.log(0.7))
  got = distillation.trusted(own, own + np.float32(np.log(0.5 / 0.7)), noise)
  assert abs(np.mean(got) - 5 / 7) < 1e-3
  assert np.all(distillation.trusted(own, own + 1, noise))


def test_hindsight_pulls_by_the_gate_alone():
  hinted = np.arange(4)[:, None] > 0
  pull = lambda x, y: jnp.sum(distillation.hindsight(x, y, hinted))
  gate = np.where(hinted, 1 / (1 + np.exp(-5 * (TEACHER - OWN))), 0)
  np.testing.assert_allclose(jax.grad(pull)(OWN, TEACHER), -gate, rtol=1e-5)
  assert not np.any(jax.grad(pull, argnums=1)(OWN, TEACHER))
  assert not np.any(distillation.hindsight(OWN, TEACHER, hinted)[0])


# Turns.


def test_the_first_step_weighs_one_and_none_more_than_the_limit():
  got = teaching.step_weights(OWN, TEACHER, MASK, _seq(), _turn(), delta=0.5)
  first = np.array([[0, 0], [1, 0], [2, 0]]).T
  np.testing.assert_allclose(got[tuple(first)], 1, rtol=1e-6)
  gap = np.abs(TEACHER - OWN)
  want = gap[0, :2].mean() / gap[0, 2:4].mean()
  np.testing.assert_allclose(got[0, 2:4], min(want, 1.5), rtol=1e-4)
  assert np.all(np.where(MASK, got, 0) <= 1.5)


def test_after_a_first_step_that_agrees_no_other_weighs():
  theirs = np.where(TURNS == 0, OWN, TEACHER)
  got = teaching.step_weights(OWN, theirs, MASK, _seq(), _turn())
  np.testing.assert_array_equal(got[0, :2], 1)
  assert np.all(got[0, 2:] < 1e-4)


def test_urgency_has_mean_one_over_the_turns():
  got = np.asarray(
    teaching.urgency(OWN, TEACHER, -REFERENCE, MASK, _seq(), _turn())
  )
  np.testing.assert_allclose(got[0, ::2].mean(), 1, rtol=1e-5)
  np.testing.assert_allclose(got[1, [0, 3]].mean(), 1, rtol=1e-5)
  np.testing.assert_array_equal(got[2, :3], 1)  # of one turn


def test_turns_that_are_alike_weigh_one():
  flat = np.full_like(OWN, -1.0)
  got = teaching.urgency(flat, flat - 0.3, -flat, MASK, _seq(), _turn())
  np.testing.assert_allclose(got[MASK], 1, rtol=1e-6)


def test_where_each_row_is_a_sequence_it_may_say_so_once():
  rows = levels.Level(jnp.arange(4, dtype=jnp.int32)[:, None], 4)
  for kernel, others in (
    (teaching.step_weights, (OWN, TEACHER, MASK)),
    (teaching.urgency, (OWN, TEACHER, -REFERENCE, MASK)),
  ):
    got, want = (kernel(*others, seq, _turn()) for seq in (rows, _seq()))
    np.testing.assert_allclose(got[MASK], want[MASK], rtol=1e-6)


@pytest.mark.parametrize('progress', [0.0, 0.3, 1.0])
def test_a_turn_a_batch_is_the_mean_of_tokens(progress):
  one = levels.Level(jnp.zeros((4, 6), jnp.int32), 1)
  got = teaching.turn_annealed(MASK, one, jnp.asarray(progress))
  np.testing.assert_allclose(got, MASK / np.sum(MASK), rtol=1e-6)
  got = teaching.turn_annealed(MASK, _turn(), jnp.asarray(progress))
  np.testing.assert_allclose(np.sum(got), 1, rtol=1e-6)
  none = teaching.turn_annealed(np.zeros_like(MASK), one, jnp.asarray(progress))
  assert not np.any(none)


def test_positions_are_those_of_the_policys_tokens():
  mask = np.array([[False, True, False, True, True]])
  seq = levels.Level(jnp.asarray([[0, 0, 0, 0, 1]], jnp.int32), 2)
  got = teaching.by_position(mask, seq, half=1.0)
  np.testing.assert_allclose(got, [[0, 1, 0, 0.5, 1]])


def test_the_teacher_fades_out_as_the_reward_fades_in():
  one, two = jnp.ones((1, 1)), jnp.full((1, 1), 2.0)
  at = lambda p: teaching.annealed(one, two, two, jnp.asarray(p), least=0.1)
  np.testing.assert_allclose(
    np.concatenate([at(0.0), at(0.5), at(1.0)]), [[4.1], [2.75], [1.4]],
    rtol=1e-6,
  )  # fmt: skip
