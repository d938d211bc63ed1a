"""What is trained on, in which order: nothing is lost, little is overtaken."""

import math

import hypothesis
import hypothesis.strategies as st
import pytest

from arl.rollout import windowed

FINISH = st.lists(st.integers(0, 30), min_size=1, max_size=25)
WIDTHS = st.sampled_from([1, 2, 3, 4, 8, math.inf])


@hypothesis.given(FINISH, WIDTHS)
def test_nothing_is_lost_or_taken_twice_and_few_are_overtaken(finish, width):
  numbers, times = windowed.order(finish, width)
  assert sorted(numbers) == list(range(len(finish)))
  assert times == sorted(times)
  for place, (number, time) in enumerate(zip(numbers, times)):
    assert time >= finish[number]
    assert abs(place - number) < width
    overtaken = [n for n in numbers[place + 1 :] if n < number]
    assert len(overtaken) < width


@hypothesis.given(FINISH)
def test_the_ends_are_strict_order_and_as_they_finish(finish):
  numbers, times = windowed.order(finish, 1)
  assert numbers == list(range(len(finish)))
  assert times == [max(finish[: i + 1]) for i in range(len(finish))]
  numbers, times = windowed.order(finish, math.inf)
  assert times == sorted(finish)
  assert numbers == sorted(range(len(finish)), key=lambda n: (finish[n], n))


@hypothesis.given(FINISH)
def test_a_wider_window_waits_no_longer(finish):
  waits = [windowed.order(finish, w)[1] for w in (1, 2, 4, 8, math.inf)]
  for narrow, wide in zip(waits, waits[1:]):
    assert all(late >= early for late, early in zip(narrow, wide))


@hypothesis.given(st.lists(st.integers(0, 12), max_size=40), WIDTHS)
def test_only_what_is_allowed_can_be_taken(drawn, width):
  window, taken = windowed.opened(width), set()
  for number in drawn:
    head = min(set(range(len(drawn) + 1)) - taken)
    assert window.head == head
    within = head <= number < head + width and number not in taken
    assert windowed.allowed(window, [number]) == [number] * within
    if not within:
      with pytest.raises(ValueError, match=f'{number} may not be taken: the'):
        windowed.take(window, number)
      continue
    window = windowed.take(window, number)
    taken.add(number)
  assert window.taken == {n for n in taken if n > window.head}


def test_a_deadline_keeps_the_window_alive():
  # 0 never finishes: it is given up, and the window moves on.
  window = windowed.opened(2)
  window = windowed.take(window, 1)
  assert windowed.allowed(window, [2, 3]) == []
  assert windowed.overdue({0: 1.0, 2: 5.0}, now=11.0, deadline=10.0) == []
  assert windowed.overdue({2: 5.0, 0: 1.0}, now=15.5, deadline=10.0) == [0, 2]
  window = windowed.passed(windowed.passed(window, 7), 0)
  assert window.head == 2 and window.taken == {7}
  assert windowed.allowed(window, [2, 3]) == [2, 3]


@pytest.mark.parametrize('width', [0, -1, 2.5])
def test_a_width_that_is_none(width):
  with pytest.raises(ValueError, match=f'the width is {width}; it is a number'):
    windowed.opened(width)
