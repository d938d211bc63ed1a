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
