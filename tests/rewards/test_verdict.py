"""Verdicts: a failure is never a score."""

import pytest

from arl.rewards import verdict


@pytest.mark.parametrize('score', [float('nan'), float('inf'), -float('inf')])
def test_a_score_is_finite(score):
  made = verdict.scored(score)
  assert (made.score, made.status) == (None, verdict.ERROR)


@pytest.mark.parametrize(
  'value, wanted',
  [
    (1, verdict.scored(1.0)),
    (True, verdict.scored(1.0)),
    (verdict.timeout('late'), verdict.timeout('late')),
    (verdict.scored(0.25, 'why'), verdict.scored(0.25, 'why')),
  ],
)
def test_what_verifiers_return(value, wanted):
  assert verdict.of(value) == wanted


@pytest.mark.parametrize('value', [None, 'yes', [1.0]])
def test_what_is_no_score_is_an_error(value):
  made = verdict.of(value)
  assert made.status == verdict.ERROR
  assert 'return a number or a Verdict' in made.detail


def test_scores_and_failures():
  verdicts = [verdict.scored(0.5), verdict.error('e'), verdict.timeout('t')]
  assert verdict.scores(verdicts) == [0.5]
  assert verdict.failures(verdicts) == pytest.approx(2 / 3)
  assert verdict.failures([]) == 0
