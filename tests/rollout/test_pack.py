"""From episodes to batches: padded or packed, an episode stays what it is."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from arl import episode, levels
from arl.rollout import pack

ROWS, WIDTH, TURNS = 6, 12, 3
COLUMNS = ('tokens', 'positions', 'segments', 'mask', 'rewards', 'rollout_logp')


def make(name, length, seed=0, turns=TURNS):
  """An episode of that length, of random content; 0 is an id like any other."""
  rng = np.random.default_rng([seed, length])
  mask = rng.random(length) < 0.6
  mask[0] = False
  return episode.Episode(
    task=episode.Task(name, '', {}),
    sample=seed,
    tokens=rng.integers(0, 4, length).astype(np.int32),
    mask=mask,
    logp=np.where(mask, -rng.random(length), 0).astype(np.float32),
    rewards=np.where(mask, rng.random(length), 0).astype(np.float32),
    turn=np.sort(rng.integers(0, turns, length)).astype(np.int32),
    status=episode.FINISHED,
  )


def place(how, episodes, rows=ROWS, width=WIDTH, max_turns=TURNS):
  return how(episodes, rows=rows, width=width, max_turns=max_turns)


def check_holds(batch, i, e):
  """Episode i lies in one row, from left to right, with all its columns."""
  rows, columns = np.nonzero((batch.seq.ids == i) & (batch.segments > 0))
  n = len(e.tokens)
  assert len(rows) == n and len(set(rows)) == 1
  assert np.array_equal(columns, np.arange(columns[0], columns[0] + n))
  at = rows, columns
  assert np.array_equal(batch.tokens[at], e.tokens)
  assert np.array_equal(batch.positions[at], np.arange(n))
  assert len(set(batch.segments[at].tolist())) == 1
  assert np.array_equal(batch.mask[at], e.mask)
  assert np.array_equal(batch.rewards[at], e.rewards)
  assert np.array_equal(batch.rollout_logp[at], e.logp)
  assert np.array_equal(batch.turn.ids[at], i * TURNS + e.turn)
  return np.broadcast_to(batch.group.ids, batch.mask.shape)[at]


EPISODES = st.lists(
  st.tuples(st.sampled_from('abc'), st.integers(1, WIDTH)), max_size=ROWS
)


@hypothesis.given(EPISODES, st.sampled_from([pack.pad, pack.pack]))
@hypothesis.settings(deadline=None)
def test_an_episode_stays_what_it_is(drawn, how):
  episodes = [make(name, n, seed) for seed, (name, n) in enumerate(drawn)]
  batch = place(how, episodes)
  groups: dict[str, set[int]] = {}
  for i, e in enumerate(episodes):
    (group,) = set(check_holds(batch, i, e).tolist())
    groups.setdefault(e.task.id, set()).add(group)
  assert all(len(ids) == 1 for ids in groups.values())
  assert len(set.union(set(), *groups.values())) == len(groups)
  # Nothing else is there, and ids fit the number of segments.
  padding = batch.segments == 0
  assert np.sum(~padding) == sum(n for _, n in drawn)
  for name in COLUMNS:
    assert not getattr(batch, name)[padding].any()
  counts = {'seq': ROWS, 'group': ROWS, 'turn': ROWS * TURNS}
  for name, num in counts.items():
    level = getattr(batch, name)
    assert level.num == num and 0 <= level.ids.min() <= level.ids.max() < num
  types = [getattr(batch, name).dtype for name in COLUMNS]
  assert types == [np.int32] * 3 + [bool] + [np.float32] * 2
  assert {getattr(batch, name).ids.dtype for name in counts} == {np.dtype('i4')}


@hypothesis.given(EPISODES)
@hypothesis.settings(deadline=None)
def test_filled_rows_come_first(drawn):
  episodes = [make(name, n, seed) for seed, (name, n) in enumerate(drawn)]
  filled = place(pack.pack, episodes).segments.any(axis=1)
  assert filled.tolist() == sorted(filled, reverse=True)
  assert filled.sum() <= len(episodes)


def test_the_layout():
  sizes = [('x', 3), ('y', 7), ('x', 2), ('y', 5)]
  episodes = [make(name, n) for name, n in sizes]
  batch = place(pack.pad, episodes, rows=5, width=8)
  assert (batch.segments > 0).sum(axis=1).tolist() == [3, 7, 2, 5, 0]
  assert batch.positions[0].tolist() == [0, 1, 2, 0, 0, 0, 0, 0]
  assert batch.group.ids[:4, 0].tolist() == [0, 1, 0, 1]
  batch = place(pack.pack, episodes, rows=5, width=8)
  # The longest first, each where it fits best.
  assert batch.segments.tolist() == [
    [1] * 7 + [0],
    [1] * 5 + [2] * 3,
    [1] * 2 + [0] * 6,
    [0] * 8,
    [0] * 8,
  ]
  assert batch.seq.ids[1].tolist() == [3] * 5 + [0] * 3
  assert batch.positions[1].tolist() == [0, 1, 2, 3, 4, 0, 1, 2]


def test_padding_is_what_is_not_there():
  # Ids 0 in the prompt, in the action and at its end are no padding.
  e = make('x', 5)._replace(
    tokens=np.array([0, 9, 0, 5, 0], np.int32),
    mask=np.array([False, False, True, True, True]),
  )
  for how in (pack.pad, pack.pack):
    batch = place(how, [e])
    assert batch.mask[0].tolist() == [0, 0, 1, 1, 1] + [0] * 7
    assert batch.segments[0].tolist() == [1] * 5 + [0] * 7
  assert place(pack.pad, []).segments.sum() == 0


@pytest.mark.parametrize('how', [pack.pad, pack.pack])
def test_errors(how):
  good = make('x', 3)
  with pytest.raises(ValueError, match='3 episodes for a batch of 2 rows;'):
    place(how, [good] * 3, rows=2)
  with pytest.raises(ValueError, match="'x' has 13 tokens, but a row holds"):
    place(how, [good, make('x', 13)])
  late = good._replace(turn=np.array([0, 1, 3], np.int32))
  with pytest.raises(ValueError, match='has 4 turns, but max_turns is 3;'):
    place(how, [late])
  failed = good._replace(status=episode.REWARD_ERROR, error='no reward')
  with pytest.raises(ValueError, match=r'no grade \(reward_error: no reward\)'):
    place(how, [failed])
  empty = {name: np.zeros(0) for name in good._fields[2:7]}
  for bare in (good._replace(mask=np.ones(3, bool)), good._replace(**empty)):
    with pytest.raises(ValueError, match='does not begin with a prompt;'):
      place(how, [bare])


def test_concatenate():
  first = place(pack.pack, [make('x', 3), make('y', 12, 1)])
  second = place(pack.pack, [make('x', 5, 2)])
  joined = pack.concatenate([first, second])
  for name in COLUMNS:
    parts = getattr(first, name), getattr(second, name)
    assert np.array_equal(getattr(joined, name), np.concatenate(parts))
  for name, num in (('seq', ROWS), ('group', ROWS), ('turn', ROWS * TURNS)):
    a, b, level = (getattr(x, name) for x in (first, second, joined))
    assert isinstance(level, levels.Level) and level.num == 2 * num
    assert np.array_equal(level.ids[:ROWS], a.ids)
    assert np.array_equal(level.ids[ROWS:], b.ids + num)
  assert joined.group.ids[joined.mask].max() == ROWS  # the second x is another
