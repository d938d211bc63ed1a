"""Beliefs about success, and the curricula that choose by them."""

import json

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import test_select
import tiny

from arl.prompts import beliefs, curricula, estimates

NAMES = (
  estimates.kgps,
  estimates.mopps,
  estimates.running_mean,
  estimates.r_zero,
  estimates.absolute_zero,
)


def pool(size=12, batch=4, seed=0):
  return curricula.Pool(tiny.letters(), size, batch, seed)


def group(id, solved, tried):
  return test_select.group(id, *([1.0 * (i < solved)] for i in range(tried)))


def index(task):
  return int(task.id.rpartition('/')[2])


def run(made, steps, solve, change=0.1, rounds=1):
  """The indices chosen in each step, and the state after."""
  state, chosen, facts = made.begin(), [], {}
  for step in range(steps):
    tasks = []
    for _ in range(rounds):
      more, state = made.choose(state, step)
      tasks += more
    chosen.append([index(task) for task in tasks])
    groups = [group(task.id, solve(index(task)), 8) for task in tasks]
    state, facts = made.observe(state, groups, curricula.Told(change))
  return chosen, state, facts


# --- Beliefs ------------------------------------------------------------------


@hypothesis.given(st.floats(-4, 4), st.floats(0.01, 9))
@hypothesis.settings(deadline=None)
def test_fifteen_points_integrate_a_sigmoid(mean, variance):
  belief = beliefs.Logits(np.array([mean]), np.array([variance]))
  x = np.linspace(-12, 12, 20001) * np.sqrt(variance) + mean
  density = np.exp(-((x - mean) ** 2) / (2 * variance))
  for use in (lambda p: p, beliefs.variance_of_success):
    exact = np.sum(use(beliefs.sigmoid(x)) * density) / np.sum(density)
    made = beliefs.expected(use, belief)[0]
    assert abs(made - exact) < (1e-5 if variance < 1 else 3e-3)


@hypothesis.given(
  st.floats(-3, 3), st.floats(0.01, 9), st.integers(0, 8), st.integers(1, 8)
)
@hypothesis.settings(deadline=None)
def test_a_correction_is_the_normal_posterior(mean, variance, solved, tried):
  solved = min(solved, tried)
  belief = beliefs.Logits(np.array([mean]), np.array([variance]))
  made = beliefs.corrected(belief, np.array([solved]), np.array([tried]))
  noise = 1 / (solved + 0.5) + 1 / (tried - solved + 0.5)
  seen = np.log((solved + 0.5) / (tried - solved + 0.5))
  precision = 1 / variance + 1 / noise
  want = (mean / variance + seen / noise) / precision
  np.testing.assert_allclose(made.belief.mean, want, atol=1e-9)
  np.testing.assert_allclose(made.belief.variance, 1 / precision)
  np.testing.assert_allclose(made.gained, want - mean, atol=1e-9)


def test_a_belief_widens_up_to_a_limit():
  belief = beliefs.Logits(np.zeros(1), np.array([8.5]))
  made = beliefs.drifted(belief, drift=0.25, noise=2.0)
  assert made.mean == 0.25 and made.variance == 9
  far = beliefs.drifted(belief, drift=-40.0, noise=0.0)
  assert far.mean == -5


def test_counts_forget():
  made = beliefs.counted(
    beliefs.Counts(np.array([11.0]), np.array([1.0])),
    np.array([2]), np.array([8]), keep=0.5,
  )  # fmt: skip
  assert (made.won[0], made.lost[0]) == (5.5 + 0.5 + 2, 0.5 + 0.5 + 6)


def test_the_share_of_mixed_groups_is_the_binomials():
  rng = np.random.default_rng(0)
  rates = np.array([0.1, 0.5, 0.9])
  drawn = rng.binomial(8, rates, (4000, 3))
  share = np.mean((drawn > 0) & (drawn < 8), axis=0)
  exact = beliefs.mixed(rates, 8)
  deviation = np.sqrt(exact * (1 - exact) / 4000)
  assert np.all(np.abs(share - exact) < 4 * deviation)


# --- Curricula ----------------------------------------------------------------


@pytest.mark.parametrize('make', NAMES)
def test_a_step_never_meets_a_task_twice_until_there_are_no_others(make):
  chosen, _, _ = run(make(pool()), 3, lambda i: i % 9, rounds=4)
  for step in chosen:
    assert sorted(step) == list(range(12))  # the fourth round finds none


@pytest.mark.parametrize('make', NAMES)
def test_a_state_that_went_through_json_chooses_the_same(make):
  made = make(pool())
  whole, _, _ = run(made, 5, lambda i: i % 9)
  state = made.begin()
  for step in range(5):
    state = json.loads(json.dumps(state))
    made = make(pool())  # nothing is remembered elsewhere
    tasks, state = made.choose(state, step)
    assert [index(task) for task in tasks] == whole[step]
    groups = [group(t.id, index(t) % 9, 8) for t in tasks]
    state, _ = made.observe(
      json.loads(json.dumps(state)), groups, curricula.Told(0.1)
    )


@pytest.mark.parametrize(
  'make', [estimates.kgps, estimates.running_mean, estimates.r_zero]
)
def test_what_is_half_solved_is_found(make):
  solve = lambda i: 4 if i < 4 else (0, 8)[i % 2]
  chosen, _, _ = run(make(pool()), 12, solve)
  assert np.mean(np.array(chosen[4:]) < 4) > 0.7


def test_absolute_zero_wants_what_is_hardly_solved():
  chosen, _, _ = run(
    estimates.absolute_zero(pool()), 12, lambda i: 1 if i < 4 else 8 * (i % 2)
  )
  assert set(chosen[-1]) == {0, 1, 2, 3}


def test_a_task_not_tried_for_long_comes_back():
  made = estimates.kgps(pool(), scale=3.0, drifting=0.0)
  chosen, _, _ = run(made, 40, lambda i: 8, change=0.3)  # all are solved
  for task in range(12):
    at = [step for step, one in enumerate(chosen) if task in one]
    assert max(np.diff([*at, 40])) <= 6


def test_what_is_told():
  made = estimates.kgps(pool())
  _, _, facts = run(made, 1, lambda i: 8)
  assert facts['expected'] == pytest.approx(0.5)
  assert facts['error'] == pytest.approx(0.5)
  assert facts['change'] == 0.1 and facts['drift'] > 0
  assert made.moved and not estimates.mopps(pool()).moved


def test_groups_of_other_tasks_are_left_out():
  find = curricula.finder(pool())
  told = curricula.seen(
    [
      group('letters/train/3', 2, 8),
      group('letters/train/3/demonstration', 1, 1),
      group('letters/train/0', 1, 1),
    ],
    find,
  )
  assert told.places.tolist() == [3, 0]
  assert told.solved.tolist() == [2, 1] and told.tried.tolist() == [8, 1]


def test_shuffled_goes_on_where_it_stood():
  made = curricula.shuffled(pool(size=8))
  state, firsts = made.begin(), []
  for step in range(4):
    tasks, state = made.choose(json.loads(json.dumps(state)), step)
    firsts.append(sorted(index(task) for task in tasks))
  assert (
    sorted(firsts[0] + firsts[1])
    == list(range(8))
    == sorted(firsts[2] + firsts[3])
  )
