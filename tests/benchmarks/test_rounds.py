"""Rounds of two sides, and the median over them."""

import pytest

from benchmarks import rounds


class Clock:
  """A worker that notes when it was asked, and answers from a list."""

  def __init__(self, name, asked, answers):
    self.name, self.asked, self.answers = name, asked, iter(answers)

  def ask(self, **request):
    self.asked.append((self.name, request['repeats']))
    return next(self.answers)


def test_sides_take_turns():
  asked = []
  ours = Clock('a', asked, [1, 2, 3])
  theirs = Clock('b', asked, [4, 5, 6])
  plan = rounds.Plan(rounds=3, seconds=1.0, repeats=2)
  made = rounds.measure(ours, theirs, (0.1, 0.8), plan)
  assert made == ([1, 2, 3], [4, 5, 6])
  assert asked == [('a', 10), ('b', 2)] * 3


@pytest.mark.parametrize(
  'seconds, want', [(10.0, 3), (0.1, 3), (0.01, 30), (1e-9, 1000)]
)
def test_how_often_to_repeat(seconds, want):
  plan = rounds.Plan(rounds=1, seconds=0.3, repeats=3)
  assert rounds.repeats(plan, seconds) == want


# Of n values, 2 * (1 + n) / 2^n is the chance that the median lies outside all
# but the outermost: 3.9 % for 9, 7 % for 8.
@pytest.mark.parametrize(
  'n, want',
  [(1, [0, 0]), (3, [0, 2]), (6, [0, 5]), (8, [0, 7]), (9, [1, 7])],
)
def test_the_interval_of_a_median(n, want):
  value, interval = rounds.median(list(reversed(range(n))))
  assert value == (n - 1) / 2 and interval == want
