"""Programs are scored by what was observed, and nothing else."""

import pytest

from arl.rewards import outcomes, verdict

P, F, C = outcomes.PASSED, outcomes.FAILED, outcomes.CRASHED
ALL = (outcomes.all_passed, outcomes.fraction, outcomes.coderl)


@pytest.mark.parametrize(
  'seen, scores',
  [
    ([P, P], (1, 1, 1)),
    ([P, F], (0, 0.5, -0.3)),
    ([C, F, P, P], (0, 0.5, -0.6)),
    ([outcomes.TIMEOUT], (0, 0, -0.6)),
    ([outcomes.NOT_COMPILED, P], (0, 0.5, -1)),
  ],
)
def test_scores(seen, scores):
  assert tuple(score(seen).score for score in ALL) == scores
  assert outcomes.all_passed(tuple(seen)).status == verdict.SCORED


@pytest.mark.parametrize('score', ALL)
def test_what_was_not_seen_is_no_score(score):
  assert score([]) == verdict.error('no tests: they judge nothing')
  failed = score([P, outcomes.UNKNOWN])
  assert failed == verdict.error('1 of 2 tests were not run')


@pytest.mark.parametrize('score', ALL)
def test_other_words_are_refused(score):
  with pytest.raises(ValueError, match='success is no outcome; use one of'):
    score([P, 'success'])
