"""Best-fit packing: nothing is split, and rows are full."""

import hypothesis
import hypothesis.strategies as st
import numpy as np

from arl.rollout import pack

WIDTH = 16
LENGTHS = st.lists(st.integers(1, WIDTH), max_size=40)


def first_fit(lengths, width):
  """The rooms left in each row, where the first that is enough is taken."""
  rooms = []
  for n in lengths:
    fits = [b for b, room in enumerate(rooms) if room >= n]
    if not fits:
      rooms.append(width)
    rooms[fits[0] if fits else -1] -= n
  return rooms


def slow(lengths, width):
  """The same rows, by looking at all of them each time."""
  rooms, rows = [], []
  for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
    fits = [b for b, room in enumerate(rooms) if room >= lengths[i]]
    if not fits:
      fits = [len(rooms)]
      rooms.append(width)
      rows.append([])
    best = min(fits, key=lambda b: rooms[b])
    rooms[best] -= lengths[i]
    rows[best].append(i)
  return rows


@hypothesis.given(LENGTHS)
def test_each_is_in_one_row_which_holds_it(lengths):
  rows = pack.best_fit(lengths, WIDTH)
  assert sorted(i for row in rows for i in row) == list(range(len(lengths)))
  assert all(0 < sum(lengths[i] for i in row) <= WIDTH for row in rows)
  assert rows == slow(lengths, WIDTH)
  # No two rows could have been one.
  sums = sorted(sum(lengths[i] for i in row) for row in rows)
  assert len(sums) < 2 or sums[0] + sums[1] > WIDTH


def test_it_fills_rows_more_than_first_fit_does():
  # Of one list either may win; over many the longest first does.
  rng = np.random.default_rng(0)
  fills = []
  for _ in range(300):
    lengths = rng.integers(1, WIDTH + 1, 60).tolist()
    fills.append(
      len(first_fit(lengths, WIDTH)) - len(pack.best_fit(lengths, WIDTH))
    )
  assert min(fills) >= 0 and np.mean(fills) > 1


def test_first_fit_in_a_lucky_order_may_win():
  lengths = [6, 5, 3, 2, 3, 6, 2, 5]
  assert len(first_fit(lengths, WIDTH)) == 2
  assert len(pack.best_fit(lengths, WIDTH)) == 3
