"""Which groups are kept."""

import hypothesis
import hypothesis.strategies as st
import numpy as np

from arl import episode
from arl.prompts import select


def group(name, *rewards):
  """A group with an episode for each list of rewards, one a token."""
  task = episode.Task(name, '', {})
  episodes = []
  for i, given in enumerate(rewards):
    n = len(given)
    row = np.zeros(n, np.int32)
    episodes.append(
      episode.Episode(
        task,
        i,
        row,
        np.ones(n, bool),
        np.zeros(n, np.float32),
        np.array(given, np.float32),
        row,
        episode.FINISHED,
      )
    )
  return episode.Group(task, episodes)


def names(groups):
  return [g.task.id for g in groups]


def test_varied():
  groups = [
    group('solved', [1], [1], [1]),
    group('mixed', [1], [0], [1]),
    group('failed', [0], [0]),
    group('alone', [1]),
    group('partial', [0.5], [0.25]),
    group('in parts', [0.5, 0.5], [0, 1]),  # the same in sum
    group('rounded', [0.1, 0.2], [0.3, 0]),  # as far as float32 can tell
    group('tenths', *[[0.1]] * 7),
    group('negative', [0, -1], [0, 0]),
  ]
  assert names(select.varied(groups)) == ['mixed', 'partial', 'negative']
  assert select.varied([]) == []


@hypothesis.given(
  st.lists(st.lists(st.integers(-4, 4), min_size=1, max_size=5), max_size=6)
)
def test_varied_keeps_exactly_the_groups_whose_rewards_differ(rewards):
  groups = [group(str(i), *([r] for r in g)) for i, g in enumerate(rewards)]
  wanted = [str(i) for i, g in enumerate(rewards) if len(set(g)) > 1]
  assert names(select.varied(groups)) == wanted


def test_everything():
  groups = [group('a', [1]), group('b', [0], [1])]
  kept = select.everything(tuple(groups))
  assert kept == groups and isinstance(kept, list)


# --- Signal to noise ----------------------------------------------------------


def test_shares_of_variance_by_hand():
  scores = np.array([0.25, 0.0, 0.16, 0.05, 0.04])
  assert select.of_mass(scores, 0.5).tolist() == [1, 0, 0, 0, 0]
  assert select.of_mass(scores, 0.82).tolist() == [1, 0, 1, 0, 0]
  assert select.of_mass(scores, 0.9).tolist() == [1, 0, 1, 1, 0]
  assert select.of_mass(scores, 1.0).tolist() == [1, 0, 1, 1, 1]
  assert select.of_number(scores, 0.4).tolist() == [1, 0, 1, 0, 0]
  assert select.of_height(scores, 0.2).tolist() == [1, 0, 1, 1, 0]


@hypothesis.given(
  st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.01, 1)
)
def test_the_smallest_set_of_that_mass(scores, mass):
  scores = np.array(scores)
  kept = select.of_mass(scores, mass)
  total, held = scores.sum(), scores[kept].sum()
  assert held >= mass * total * (1 - 1e-6)
  if kept.any():
    assert held - scores[kept].min() < mass * total
    assert scores[kept].min() >= scores[~kept].max(initial=0)
  else:
    assert not scores.any()


def test_groups_by_their_signal():
  groups = [
    group('solved', [1], [1], [1], [1]),
    group('weak', [1], [0.9], [1], [1]),
    group('half', [1], [0], [1], [0]),
    group('one', [1], [0], [0], [0]),
  ]
  assert names(select.signal(groups)) == ['half', 'one']
  assert names(select.signal(groups, mass=1.0)) == ['weak', 'half', 'one']
  assert names(select.signal_number(groups)) == ['half', 'one']
  assert names(select.signal_height(groups)) == ['half', 'one']
  for keep in (select.signal, select.signal_number, select.signal_height):
    assert keep([]) == [] and keep(groups[:1]) == []


def test_the_share_is_of_variance_where_a_softmax_keeps_nearly_all():
  scores = np.array([0.25, *[1e-3] * 9])
  assert select.of_mass(scores, 0.9).sum() == 1
  odds = np.exp(scores) / np.exp(scores).sum()
  assert select.of_mass(odds, 0.9).sum() == 9
