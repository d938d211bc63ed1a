"""Those who set tasks, labels by vote, and thinking no longer than it helps."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl.rewards import consensus, learning, reasoning

RATE = st.floats(0, 1)


@given(RATE, RATE)
def test_bounds(rate, other):
  assert 0 <= learning.r_zero(rate) <= 0.5
  assert learning.r_zero_paper(rate) == pytest.approx(2 * learning.r_zero(rate))
  assert 0 <= learning.absolute_zero(rate) <= 1
  assert 0 <= learning.spade(rate, other) <= 1


def test_invalid_tasks():
  assert learning.r_zero(0.5, 0.25, valid=False) == -1.25
  assert learning.absolute_zero(0.5, valid=False) == 0
  assert learning.spade(1, 0.5, valid=False) == 0


@pytest.mark.parametrize(
  'useful, formed, wanted',
  [(True, True, 0.7), (False, True, -0.5), (False, False, -1)],
)
def test_form_comes_first(useful, formed, wanted):
  made = learning.absolute_zero_formed(0.7, useful=useful, formed=formed)
  assert made == wanted


def test_the_rarely_solved_are_best_and_the_never_solved_are_not():
  assert learning.absolute_zero(0.01) > learning.absolute_zero(0.5)
  assert learning.absolute_zero(0) == 0


def test_the_plateau():
  assert learning.plateau(0.4) == learning.plateau(0.6) == 1
  assert learning.plateau(0.275) == pytest.approx(0.5)
  assert learning.plateau(1) == 0


@pytest.mark.parametrize(
  'answers, label',
  [
    ([], ''),
    (['', ''], ''),
    (['', 'a', ''], 'a'),
    (['b', 'a', 'a', 'b'], 'b'),
    (['b', 'a', 'a'], 'a'),
  ],
)
def test_majority(answers, label):
  assert consensus.majority(answers) == label


def test_co_rewarding_crosses_over():
  ours, theirs = consensus.co_rewarding(['a', 'b', 'b'], ['a', 'a', 'c'])
  assert ours == [1, 0, 0]
  assert theirs == [0, 0, 0]
  assert consensus.co_rewarding([''], ['']) == ([0], [0])


def test_the_entropy_of_labels():
  assert consensus.label_entropy(['a', 'a']) == 0
  assert consensus.label_entropy(['a', 'b']) == pytest.approx(math.log(2))
  assert consensus.label_entropy([]) == 0


def test_the_rate_is_over_after_its_steps():
  assert consensus.reference_rate(500, 100) == 1e-5


def test_labels_of_thoughts():
  label = reasoning.drqa_label
  assert [label(True, True), label(True, False), label(False, True)] == [
    'A', 'B', 'C',
  ]  # fmt: skip


def test_what_follows_the_first_sentence():
  assert reasoning.after_first([10, 20, 70], 1) == pytest.approx(0.7)
  assert reasoning.after_first([10, 20, 70], 2) == 0
  assert reasoning.after_first([10], None) is None
  assert reasoning.after_first([], 0) is None
