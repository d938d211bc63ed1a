"""Credit of turns: literal numbers, plain loops, packed rows, empty turns."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl import levels
from arl.kernels import credit

# One sequence of three turns; the policy did not write the tokens between.
MASK = ((True, True, False, True, False, False, True, True),)
TURN = ((0, 0, 1, 1, 2, 2, 2, 2),)
VALUES = ((0.4, 9, 9, 0.5, 9, 9, 0.7, 9),)
REWARDS = ((0.04, 0.06, 9, 0, 9, 9, 0, 1),)


def _level(ids, num):
  return levels.Level(jnp.asarray(ids, jnp.int32), num)


def _turns(*values):
  """A number a turn, on the policy's tokens of the worked sequence."""
  a, b, c = values
  return [[a, a, 0, b, 0, 0, c, c]]


COLUMNS = {
  'rewards': jnp.asarray(REWARDS),
  'old_value': jnp.asarray(VALUES),
  'mask': jnp.asarray(MASK),
  'seq': worked.sequences(1, 8),
  'turn': _level(TURN, 3),
}


@pytest.mark.parametrize(
  'gamma, lam, want',
  [(1.0, 1.0, (0.7, 0.5, 0.3)), (0.99, 0.9, (0.605127, 0.4603, 0.3))],
)
def test_advantages_of_turns_by_hand(gamma, lam, want):
  kernel = functools.partial(credit.turn_gae, gamma=gamma, lam=lam)
  got = jax.jit(kernel)(**COLUMNS)
  np.testing.assert_allclose(got, _turns(*want), atol=1e-6)


def test_targets_of_turns_by_hand():
  got = credit.turn_return(**COLUMNS, gamma=1.0, lam=1.0)
  np.testing.assert_allclose(got, _turns(1.1, 1.0, 1.0), atol=1e-6)
  start = credit.turn_start(COLUMNS['mask'], COLUMNS['turn'])
  want = [[True, False, False, True, False, False, True, False]]
  np.testing.assert_array_equal(start, want)


def test_whitening_counts_turns():
  advantage = jnp.asarray(_turns(0.7, 0.5, 0.3), jnp.float32)
  mask, turn = COLUMNS['mask'], COLUMNS['turn']
  fill = jnp.where(mask, advantage, jnp.nan)
  got = jax.jit(credit.turn_whiten)(fill, mask, turn)
  np.testing.assert_allclose(got, _turns(1, 0, -1), atol=1e-6)


@pytest.mark.parametrize('values', [(0.1,) * 3, (0.7,) * 3])
def test_whitening_turns_that_agree_gives_zero(values):
  advantage = jnp.asarray(_turns(*values), jnp.float32)
  got = credit.turn_whiten(advantage, COLUMNS['mask'], COLUMNS['turn'])
  np.testing.assert_array_equal(got, np.zeros((1, 8)))


def test_whitening_a_lone_turn_gives_zero():
  mask = COLUMNS['mask'].at[0, 2:].set(False)
  advantage = jnp.full((1, 8), 5.0)
  got = credit.turn_whiten(advantage, mask, COLUMNS['turn'])
  np.testing.assert_array_equal(got, np.zeros((1, 8)))


def test_a_turn_that_the_policy_did_not_write_contributes_nothing():
  mask = COLUMNS['mask'].at[0, 3].set(False)
  got = credit.turn_gae(**{**COLUMNS, 'mask': mask}, gamma=0.5, lam=1.0)
  want = [0.1 + 0.5 * 0.7 - 0.4 + 0.5 * 0.3] * 2 + [0] * 4 + [0.3] * 2
  np.testing.assert_allclose(got, [want], atol=1e-6)


SHAPE, SEQUENCES, TURNS = (2, 12), 4, 3  # of turns a sequence
GROUPS = np.asarray([0, 1, 0, 1])


def _random(seed):
  """Two sequences packed into each of two rows, of up to three turns each."""
  rng = np.random.default_rng(seed)
  rewards, values = rng.normal(size=(2, *SHAPE)).astype(np.float32)
  half = np.arange(12) // 6
  seq = half + 2 * np.arange(2)[:, None]
  index = np.sort(rng.integers(0, TURNS, size=(*SHAPE[:1], 2, 6)), axis=-1)
  index = index.reshape(SHAPE)
  mask = rng.random(SHAPE) < 0.6
  return rewards, values, mask, seq, index


def _of(seed, fill):
  rewards, values, mask, seq, index = _random(seed)
  turn = TURNS * seq + index
  group = GROUPS[seq]
  return {
    'rewards': np.where(mask, rewards, np.float32(fill)),
    'old_value': np.where(mask, values, np.float32(fill)),
    'mask': mask,
    'seq': _level(np.where(mask, seq, -5), SEQUENCES),
    'group': _level(np.where(mask, group, 99), 2),
    'turn': _level(np.where(mask, turn, -7), SEQUENCES * TURNS),
    'step_of_group': _level(np.where(mask, TURNS * group + index, 99), 6),
  }


@jax.jit
def _all(columns):
  reads = {
    n: columns[n] for n in ('rewards', 'old_value', 'mask', 'seq', 'turn')
  }
  whole = {n: x for n, x in columns.items() if n != 'old_value'}
  steps = {n: x for n, x in whole.items() if n != 'group'}
  groups = {n: x for n, x in whole.items() if n != 'step_of_group'}
  return (
    credit.turn_gae(**reads, gamma=0.9, lam=0.8),
    credit.turn_return(**reads, gamma=0.9, lam=0.8),
    credit.step_return_to_go(**steps, gamma=0.9),
    credit.group_process(**groups),
  )


def _turns_of(seed):
  """{sequence: [(index, tokens, reward, value)]} of what the policy wrote."""
  rewards, values, mask, seq, index = _random(seed)
  made = {}
  for sequence in range(SEQUENCES):
    made[sequence] = []
    for turn in range(TURNS):
      own = mask & (seq == sequence) & (index == turn)
      tokens = list(zip(*np.nonzero(own)))
      if tokens:
        earned = sum(float(rewards[t]) for t in tokens)
        value = float(values[tokens[0]])
        made[sequence].append((turn, tokens, earned, value))
  return made


def _back(turns, gamma, lam, baseline):
  """[(index, tokens, advantage, value)] by the recursion of GAE."""
  made, later, next_value = [], 0.0, 0.0
  for index, tokens, earned, value in reversed(turns):
    value *= baseline
    later = earned + gamma * next_value - value + gamma * lam * later
    next_value = value
    made.append((index, tokens, later, value))
  return made[::-1]


def _normalized(values):
  if len(values) < 2:
    return np.zeros(len(values))
  return (values - np.mean(values)) / (np.std(values, ddof=1) + 1e-6)


@hypothesis.settings(max_examples=20, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_turns_equal_plain_loops(seed):
  got = _all(_of(seed, np.nan))
  advantage, target, steps, process = np.zeros((4, *SHAPE))
  peers, everything = {}, {}
  for sequence, turns in _turns_of(seed).items():
    for _, tokens, each, value in _back(turns, 0.9, 0.8, 1):
      for token in tokens:
        advantage[token], target[token] = each, each + value
    for index, tokens, each, _ in _back(turns, 0.9, 1.0, 0):
      place = GROUPS[sequence], index
      peers.setdefault(place, []).append((tokens, each))
    everything.setdefault(GROUPS[sequence], []).append(turns)
  for each in peers.values():
    values = _normalized([value for _, value in each])
    for (tokens, _), value in zip(each, values):
      for token in tokens:
        steps[token] = value
  for sequences in everything.values():
    if sum(map(bool, sequences)) < 2:
      continue
    flat = [(i, turn) for i, turns in enumerate(sequences) for turn in turns]
    values = _normalized([turn[2] for _, turn in flat])
    for i, (_, tokens, *_) in flat:
      for token in tokens:
        process[token] = sum(
          value
          for (other, (_, after, *_)), value in zip(flat, values)
          if other == i and after[-1] >= token
        )
  # Values of size one that differ by thousandths are known to as much.
  for a, b in zip(got, (advantage, target, steps, process)):
    np.testing.assert_allclose(a, b, atol=1e-4)


def test_what_the_policy_did_not_write_is_never_read():
  for a, b in zip(_all(_of(3, np.nan)), _all(_of(3, 1e9))):
    np.testing.assert_array_equal(a, b)


def test_no_gradient_passes():
  columns = _of(4, 0)

  def total(floats):
    return sum(jnp.sum(each) for each in _all({**columns, **floats}))

  floats = {name: columns[name] for name in ('rewards', 'old_value')}
  for got in jax.tree.leaves(jax.grad(total)(floats)):
    np.testing.assert_array_equal(got, np.zeros(SHAPE))


def _steps(rewards):
  """Two sequences of three turns of one token each, in one group."""
  turn = np.arange(6).reshape(2, 3)
  return {
    'rewards': jnp.asarray(rewards, jnp.float32),
    'mask': jnp.ones((2, 3), bool),
    'seq': worked.sequences(2),
    'turn': _level(turn, 6),
  }


def test_steps_are_compared_with_peers_of_their_index():
  columns = _steps([[0.1, 0.1, 1.0], [0.0, 0.1, 0.0]])
  peers = _level([[0, 1, 2]] * 2, 3)
  got = credit.step_return_to_go(**columns, step_of_group=peers, eps=0.0)
  # Returns to go: 1.2, 1.1, 1.0 and 0.1, 0.1, 0.0; of two, the deviation is
  # their distance over the root of 2.
  np.testing.assert_allclose(got, [[0.5**0.5] * 3, [-(0.5**0.5)] * 3], 1e-5)


def test_a_step_without_a_peer_gives_zero():
  columns = _steps([[0.1, 0.1, 1.0], [0.0, 0.1, 0.0]])
  peers = _level([[0, 1, 2], [0, 3, 4]], 5)
  got = credit.step_return_to_go(**columns, step_of_group=peers)
  np.testing.assert_array_equal(got[:, 1:], np.zeros((2, 2)))
  assert got[0, 0] > 0 > got[1, 0]


@pytest.mark.parametrize('rewards', [[[0.1] * 3] * 2, [[0.7] * 3] * 2])
def test_equal_steps_say_nothing(rewards):
  columns = _steps(rewards)
  got = credit.group_process(**columns, group=worked.one_group(2))
  np.testing.assert_array_equal(got, np.zeros((2, 3)))
  peers = _level([[0, 1, 2]] * 2, 3)
  got = credit.step_return_to_go(**columns, step_of_group=peers)
  np.testing.assert_array_equal(got, np.zeros((2, 3)))


def test_process_rewards_of_one_sequence_say_nothing():
  columns = _steps([[0.1, 0.4, 1.0], [0.0, 0.2, 0.0]])
  got = credit.group_process(**columns, group=worked.level([0, 1], 3))
  np.testing.assert_array_equal(got, np.zeros((2, 3)))


def test_process_rewards_by_hand():
  columns = _steps([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
  got = credit.group_process(
    **columns, group=worked.one_group(2), ddof=0, eps=0.0
  )
  np.testing.assert_allclose(got, [[1, 0, 1], [-1, 0, 1]], atol=1e-6)


def test_two_levels_of_gae_by_a_plain_loop():
  rng = np.random.default_rng(5)
  mask = np.asarray(MASK[0])
  turn = np.asarray(TURN[0])
  value, rewards = rng.normal(size=(2, 8))
  rewards = np.where(mask, rewards, 0)
  ends = [int(np.flatnonzero(mask & (turn == k))[-1]) for k in range(3)]
  target, later, following = {}, 0.0, 0.0
  for k in reversed(range(3)):
    earned = rewards[mask & (turn == k)].sum()
    delta = earned + 0.9 * following - value[ends[k]]
    later = delta + 0.9 * 0.8 * later
    following = value[ends[k]]
    target[k] = later + following
  want = np.zeros(8)
  for k in range(3):
    ahead, following = 0.0, 0.0
    for t in reversed(np.flatnonzero(mask & (turn == k))):
      reward = target[k] if t == ends[k] else 0.0
      ahead = reward + 0.95 * following - value[t] + 0.95 * 0.8 * ahead
      following = value[t]
      want[t] = ahead
  given = {
    **COLUMNS,
    'rewards': jnp.asarray(rewards[None]),
    'old_value': jnp.asarray(value[None]),
  }
  numbers = {'turn_gamma': 0.9, 'gamma': 0.95, 'lam': 0.8}
  got = credit.bi_level_gae(**given, **numbers)
  np.testing.assert_allclose(got, want[None], atol=1e-5)
  made = credit.bi_level_return(**given, **numbers)
  np.testing.assert_allclose(
    made, np.where(mask, want + value, 0)[None], atol=1e-5
  )


def test_outcomes_of_turns_count_a_sequence_as_often_as_it_has_turns():
  mask = jnp.asarray([[True, True, True], [True, False, False]])
  turn = _level([[0, 1, 2], [3, 3, 3]], 4)
  rewards = jnp.asarray([[0, 0, 1.0], [0, 9, 9]])
  seq, group = worked.sequences(2, 3), worked.one_group(2, 3)
  got = credit.outcome_of_turns(rewards, mask, seq, group, turn)
  # Of 1, 1, 1, 0 the mean is 3/4 and the deviation 1/2.
  want = [[0.5, 0.5, 0.5], [-1.5, 0, 0]]
  np.testing.assert_allclose(jnp.where(mask, got, 0), want, atol=1e-5)
  alone = credit.outcome_of_turns(rewards, mask, seq, seq, turn)
  assert not np.any(alone)
