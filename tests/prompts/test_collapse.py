"""Spread that is lost, and answers that fit any prompt."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import test_select

from arl.prompts import collapse


def groups(spread):
  return [test_select.group('a', [0.5 + spread], [0.5 - spread])]


def run(values, least=0.1):
  spreads, over = (), []
  for value in values:
    spreads, facts = collapse.watch(spreads, groups(value), least=least)
    assert facts['spread'] == pytest.approx(value, abs=1e-6)
    over.append(bool(facts['collapsed']))
    assert len(spreads) <= 20
  return over


def test_ten_steps_below_a_tenth_of_the_first_ten():
  over = run([0.5] * 10 + [0.3] * 3 + [0.04] * 10)
  assert over == [False] * 22 + [True]


def test_one_step_above_starts_the_count_anew():
  over = run([0.5] * 10 + [0.04] * 9 + [0.06] + [0.04] * 10)
  assert over == [False] * 29 + [True]


def test_no_rule_watches_nothing():
  assert collapse.watch((), groups(0.5), least=0.0) == ((), {})
  assert collapse.watch((0.5,), [], least=0.1)[0] == (0.5, 0.0)


@hypothesis.given(st.integers(2, 6), st.integers(0, 99))
def test_information_is_bounded_and_ignores_what_all_prompts_share(n, seed):
  rng = np.random.default_rng(seed)
  scores = -rng.exponential(3, (n, n))
  told = collapse.information(scores)
  assert told <= np.log(n) + 1e-9
  shifted = collapse.information(scores + rng.normal(size=(n, 1)))
  assert shifted == pytest.approx(told, abs=1e-9)


def test_information_of_a_channel():
  """Of one-token answers under known odds it estimates the information."""
  odds = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
  exact = np.mean(
    np.sum(odds * (np.log(odds) - np.log(odds.mean(axis=0))), axis=1)
  )
  rng = np.random.default_rng(0)
  made = [
    collapse.information(
      np.log(odds[:, [rng.choice(3, p=row) for row in odds]]).T
    )
    for _ in range(4000)
  ]
  assert abs(np.mean(made) - exact) < 4 * np.std(made) / np.sqrt(4000)


def test_retrieval():
  assert collapse.retrieval(np.full((4, 4), -1.0)) == 0.25
  assert collapse.retrieval(np.array([[-1.0, -2], [-1, -2]])) == 0.5
  assert collapse.retrieval(np.array([[-1.0, -2], [-2, -1]])) == 1.0
