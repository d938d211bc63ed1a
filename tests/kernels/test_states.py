"""Credit by states: plain loops over random walks, lone states, few states."""

import collections

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl import levels
from arl.kernels import advantages, states

GROUPS, SIZE, TURNS, TOKENS = 2, 4, 4, 2
ROWS, WIDTH, NUM = GROUPS * SIZE, TURNS * TOKENS, 40


def walks(seed, places=3):
  """Sequences of turns of two tokens, the first of which was not sampled."""
  rng = np.random.default_rng(seed)
  lengths = rng.integers(1, TURNS + 1, size=ROWS)
  state = rng.integers(places, size=(ROWS, TURNS))
  state += NUM // 2 * (np.arange(ROWS) // SIZE)[:, None]
  earned = np.round(rng.random(ROWS), 2)
  at = np.arange(WIDTH) // TOKENS
  there = at[None] < lengths[:, None]
  mask = there & (np.arange(WIDTH) % TOKENS == 1)
  last = mask & (at[None] == lengths[:, None] - 1)
  spread = lambda x: np.where(there, x[:, at], 7)
  columns = {
    'rewards': jnp.asarray(np.where(last, earned[:, None], 0.0)),
    'mask': jnp.asarray(mask),
    'seq': levels.Level(jnp.arange(ROWS)[:, None], ROWS),
    'turn': levels.Level(
      jnp.arange(ROWS)[:, None] * TURNS + at[None], ROWS * TURNS
    ),
    'state': levels.Level(jnp.asarray(spread(state)), NUM),
  }
  group = levels.Level(jnp.arange(ROWS)[:, None] // SIZE, GROUPS)
  paths = [list(map(int, s[:n])) for s, n in zip(state, lengths)]
  return columns, group, paths, earned


def normalized(values):
  """(x - mean) / (std + 1e-6) of a dict; 0 where there is no spread."""
  x = np.array(list(values.values()))
  if np.ptp(x) < 1e-9:
    return dict.fromkeys(values, 0.0)
  return dict(zip(values, (x - x.mean()) / (x.std(ddof=1) + 1e-6)))


def by(keys, values):
  """Normalizes values (row, turn) -> x within those of one key."""
  parts = collections.defaultdict(dict)
  for place, x in values.items():
    parts[keys[place]][place] = x
  return {p: x for part in parts.values() for p, x in normalized(part).items()}


def tables(paths, earned, gamma):
  """State, V before and V after of each turn, by plain loops."""
  visits = collections.defaultdict(list)
  for path, r in zip(paths, earned):
    for t, s in enumerate(path):
      visits[s].append(gamma ** (len(path) - t) * r)
  worth = {s: np.mean(x) for s, x in visits.items()}
  at, before, after = {}, {}, {}
  for row, (path, r) in enumerate(zip(paths, earned)):
    for t, s in enumerate(path):
      at[row, t], before[row, t] = s, worth[s]
      after[row, t] = worth[path[t + 1]] if t + 1 < len(path) else r
  return at, before, after


def check(column, want):
  """A column against numbers of turns (row, turn)."""
  made = np.zeros((ROWS, WIDTH))
  for (row, turn), x in want.items():
    made[row, turn * TOKENS + 1] = x
  np.testing.assert_allclose(column, made, atol=2e-4)


SOME = hypothesis.settings(max_examples=20, deadline=None)
way_out = jax.jit(lambda c: states.way_out(**c, gamma=0.9))
gain = jax.jit(lambda c, g: states.gain(**c, group=g, gamma=0.9))
shorter = jax.jit(lambda c: states.shorter(**c))


@hypothesis.given(st.integers(0, 2**20))
@SOME
def test_where_turns_lead_is_compared_by_state_and_by_group(seed):
  columns, group, paths, earned = walks(seed)
  at, before, after = tables(paths, earned, 0.9)
  check(way_out(columns), by(at, after))
  rows = {place: place[0] // SIZE for place in at}
  gained = {place: after[place] - before[place] for place in at}
  check(gain(columns, group), by(rows, gained))


@hypothesis.given(st.integers(0, 2**20))
@SOME
def test_the_way_in_is_compared_by_its_tokens(seed):
  columns, _, paths, earned = walks(seed)
  at, _, after = tables(paths, earned, 1.0)
  into = {
    (row, t): paths[row][t + 1]
    for row, t in at
    if t + 1 < len(paths[row]) and after[row, t] > 0
  }
  cost = {(row, t): -(t + 1.0) for row, t in into}
  check(shorter(columns), by(into, cost))


def test_both_parts_are_their_sums():
  columns, group, _, _ = walks(3)
  both = states.way_out_and_gain(**columns, group=group)
  np.testing.assert_allclose(
    both, states.way_out(**columns) + states.gain(**columns, group=group)
  )
  other = states.way_out_and_shorter(**columns, efficiency=0.5)
  np.testing.assert_allclose(
    other,
    states.way_out(**columns, gamma=1.0) + 0.5 * states.shorter(**columns),
  )


def test_states_that_are_met_once_share_nothing():
  columns, _, _, _ = walks(1)
  alone = {**columns, 'state': columns['turn']}
  assert not np.any(states.way_out(**alone))
  assert not np.any(states.shorter(**alone))
  told = {n: alone[n] for n in ('mask', 'turn', 'state')}
  assert not np.any(states.shared(**told))
  # Where all is one state, all on the mask is shared.
  one = {**told, 'state': levels.Level(jnp.zeros((ROWS, WIDTH), int), 1)}
  np.testing.assert_array_equal(states.shared(**one), columns['mask'])
  assert not np.any(states.return_to_go(**alone))


def test_a_group_without_success_learns_from_rubrics_alone():
  columns, _, _, _ = walks(2, places=1)
  failed = {**columns, 'rewards': 0 * columns['rewards']}
  scores = jnp.where(columns['mask'], jnp.arange(1.0, 1 + WIDTH), 0)
  got = states.completed_advantage(**failed, process_rewards=scores)
  assert np.any(got)
  assert not np.any(states.way_out(**failed))


def test_prompts_compared_move_all_samples_alike():
  columns, group, _, _ = walks(4)
  told = {n: columns[n] for n in ('rewards', 'mask', 'seq')}
  own = advantages.group_normalize(**told, group=group)
  got = advantages.across_groups(own, **told, group=group, coef=0.5)
  added = np.asarray(got - jnp.where(columns['mask'], own, 0))
  shift = [
    {round(float(x), 5) for x in added[rows][np.asarray(columns['mask'])[rows]]}
    for rows in (slice(0, SIZE), slice(SIZE, None))
  ]
  # Two groups are one deviation apart, so half of sqrt(2) each way from 0.
  assert all(len(each) == 1 for each in shift)
  assert sorted(min(each) for each in shift) == pytest.approx(
    [-0.5 / 2**0.5, 0.5 / 2**0.5], abs=1e-3
  )
