"""The study of pools: its answers are what it says, and its numbers add up."""

import random

import pytest

from arl.rewards import maths
from experiments.studies import verifiers


def test_plain_answers_are_what_they_say():
  rng = random.Random(0)
  made = [verifiers.plain(rng) for _ in range(100)]
  assert {each.score for each in made} == {0.0, 1.0}
  for each in made:
    assert maths.verify(each.gold, each.text).score == each.score, each


def test_a_mix_has_its_share():
  made = verifiers.mix(40, 0.2, verifiers.STUCK, 1)
  assert len(made) == 40
  assert sum(each.score is None for each in made) == 8
  assert made == verifiers.mix(40, 0.2, verifiers.STUCK, 1)


@pytest.mark.parametrize('kind', [verifiers.REFUSED, verifiers.STUCK])
def test_a_case_is_measured(kind):
  found = verifiers.run(verifiers.Case('', 0.1, kind), 20, 0)
  assert found.rate > 0
  assert (found.right, found.ended) == (1, 1)


def test_the_clean_mix_comes_first():
  first, *rest = verifiers.cases()
  assert first.share == 0 and all(case.share > 0 for case in rest)
  assert len({case.name for case in [first, *rest]}) == 5
