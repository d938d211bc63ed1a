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
  with pytest.raises(ValueError, match='3 trajectories for a batch of 2 rows;'):
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


# What only some methods read.


def with_extras(e, **extras):
  return e._replace(extras={**e.extras, **extras})


@pytest.mark.parametrize('how', [pack.pad, pack.pack])
def test_extras_lie_where_their_tokens_do(how):
  episodes = [
    with_extras(
      e,
      kind=np.arange(len(e.tokens)),
      baseline=np.full(len(e.tokens), 0.5 + i),
      answer=np.arange(len(e.tokens)) == 1,
      unread=np.full(1, np.nan),
    )
    for i, e in enumerate([make('x', 3), make('y', 7), make('x', 4)])
  ]
  wanted = ('answer', 'baseline', 'kind')
  batch = how(episodes, rows=ROWS, width=WIDTH, max_turns=TURNS, extras=wanted)
  assert set(batch.extras) == set(wanted)
  types = {name: column.dtype for name, column in batch.extras.items()}
  assert types == {'answer': bool, 'baseline': np.float32, 'kind': np.int32}
  for i, e in enumerate(episodes):
    at = np.nonzero((batch.seq.ids == i) & (batch.segments > 0))
    for name in wanted:
      np.testing.assert_array_equal(batch.extras[name][at], e.extras[name])
  for column in batch.extras.values():
    assert not column[batch.segments == 0].any()


@pytest.mark.parametrize('how', [pack.pad, pack.pack])
def test_truncated_is_what_a_limit_cut_off(how):
  statuses = [episode.FINISHED, episode.MAX_TURNS, episode.MAX_TOKENS]
  episodes = [
    make('x', n)._replace(status=status)
    for n, status in zip((5, 4, 3), statuses)
  ]
  batch = how(
    episodes, rows=3, width=WIDTH, max_turns=TURNS, extras=['truncated']
  )
  for i, cut in enumerate([False, True, True]):
    at = (batch.seq.ids == i) & (batch.segments > 0)
    assert batch.extras['truncated'][at].tolist() == [cut] * len(
      episodes[i].tokens
    )
  assert batch.extras['truncated'].dtype == bool


@pytest.mark.parametrize('how', [pack.pad, pack.pack])
def test_a_step_of_a_group_is_its_turns_of_one_index(how):
  episodes = [
    make(name, 6, seed)._replace(turn=np.array([0, 0, 1, 1, 2, 2], np.int32))
    for seed, name in enumerate('xyx')
  ]
  batch = how(
    episodes, rows=3, width=WIDTH, max_turns=TURNS, extras=['step_of_group']
  )
  level = batch.extras['step_of_group']
  assert level.num == 3 * TURNS and level.ids.dtype == np.int32
  ids = [
    level.ids[(batch.seq.ids == i) & (batch.segments > 0)].tolist()
    for i in range(3)
  ]
  assert ids[0] == ids[2] and not set(ids[0]) & set(ids[1])
  for each in ids:
    assert each[::2] == each[1::2] and len(set(each)) == TURNS
  assert 0 <= level.ids.min() <= level.ids.max() < level.num


def test_concatenated_extras_stay_apart():
  batches = [
    pack.pack(
      [make('x', 5, seed)],
      rows=2,
      width=WIDTH,
      max_turns=TURNS,
      extras=['step_of_group', 'truncated'],
    )
    for seed in range(2)
  ]
  joined = pack.concatenate(batches)
  level = joined.extras['step_of_group']
  assert level.num == 2 * 2 * TURNS and level.ids.shape == (4, WIDTH)
  on = joined.segments > 0
  first, second = level.ids[0][on[0]], level.ids[2][on[2]]
  assert not set(first.tolist()) & set(second.tolist())
  assert joined.extras['truncated'].shape == (4, WIDTH)


@pytest.mark.parametrize('how', [pack.pad, pack.pack])
def test_columns_that_are_refused(how):
  place_them = lambda e: how(
    [e], rows=2, width=WIDTH, max_turns=TURNS, extras=['baseline']
  )
  e = make('x', 3)
  with pytest.raises(ValueError, match="'x' has no column 'baseline'; it has"):
    place_them(with_extras(e, kind=np.zeros(3)))
  for column in (np.zeros(1), np.zeros(4), np.zeros((3, 1)), np.float32(1)):
    with pytest.raises(
      ValueError, match='it must be 3 finite numbers, one a t'
    ):
      place_them(with_extras(e, baseline=column))
  with pytest.raises(ValueError, match="column 'baseline' .* finite numbers"):
    place_them(with_extras(e, baseline=np.array([0, np.nan, 0])))


@pytest.mark.parametrize('reward', [np.nan, np.inf, -np.inf])
def test_rewards_that_are_no_numbers(reward):
  e = make('x', 3)
  e.rewards[1] = reward
  for how in (pack.pad, pack.pack):
    with pytest.raises(ValueError, match='a reward is a finite number, and'):
      place(how, [e])
