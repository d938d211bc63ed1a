"""Rollouts allotted by what the first of a task have shown."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import test_steering as steering

from arl import episode
from arl.rollout import costs, early_stop, scripted, strategies

SETS = st.sampled_from([set(), {0.0}, {1.0}, {0.0, 1.0}])


@hypothesis.given(
  st.lists(st.tuples(st.floats(0, 2), SETS), min_size=1, max_size=8),
  st.floats(0, 2),
  st.integers(2, 6),
  st.integers(0, 6),
)
@hypothesis.settings(max_examples=100, deadline=None)
def test_what_the_stopped_leave_goes_to_the_others(tasks, floor, first, extra):
  samples = first + extra
  entropies, earned = zip(*tasks)
  more = early_stop.allocate(
    entropies, earned, floor, samples=samples, first=first
  )
  budget = samples * len(tasks)
  stopped = [len(e) == 1 and h < floor for h, e in tasks]
  total = first * len(tasks) + sum(more)
  assert total <= budget
  for stop, count in zip(stopped, more):
    assert count == 0 if stop else extra <= count
    assert first + count <= early_stop.MOST * samples
  full = all(
    first + count == early_stop.MOST * samples
    for stop, count in zip(stopped, more)
    if not stop
  )
  assert total == budget or full


def test_mixed_outcomes_come_first_and_then_entropy():
  more = early_stop.allocate(
    [0.1, 1.0, 0.5, 2.0],
    [{1.0}, {0.0}, {0.0, 1.0}, {0.0}],
    0.2,
    samples=6,
    first=4,
  )
  # Two are left: one to the mixed task, one to the most uncertain.
  assert more == [0, 2, 3, 3]


def says_by_task(request):
  return 'a' if request.path[1] == 0 else 'ab'[request.path[2] % 2]


def test_a_sure_task_gets_no_more_and_the_others_do():
  speaker = steering.Speaker(
    says_by_task, lambda request: 0.1 if request.path[1] == 0 else 1.0
  )
  two = early_stop.early(2)
  made = steering.roll_out(two, speaker, samples=4, count=2, entropy_floor=0.5)
  sizes = [len(group.episodes) for group in episode.groups(made)]
  assert sizes == [2, 6]
  for group in episode.groups(made):
    assert [e.sample for e in group.episodes] == [*range(len(group.episodes))]
    assert all(e.status == episode.FINISHED for e in group.episodes)
  told = costs.of(two, made)
  assert told['rollout/stopped_frac'] == 0.5
  assert told['rollout/entropy_low'] == pytest.approx(0.1 + 0.2 * 0.9)
  assert told['rollout/tokens'] == sum(int(e.mask.sum()) for e in made)


def test_without_a_floor_it_is_multi_turn():
  model = steering.embedded()
  ours = steering.roll_out(
    early_stop.early(2), model, samples=4, count=2, entropy_floor=0.0
  )
  plain = steering.roll_out(strategies.multi_turn, model, samples=4, count=2)
  for one, other in zip(ours, plain, strict=True):
    np.testing.assert_array_equal(one.tokens, other.tokens)
  assert costs.of(early_stop.early(2), ours)['rollout/stopped_frac'] == 0


def test_what_it_cannot_judge_by_is_refused():
  mute = scripted.ScriptedEngine(lambda request: [2], vocab=8)
  with pytest.raises(ValueError, match='tells no entropies'):
    steering.roll_out(early_stop.four, mute, samples=4, entropy_floor=0.1)
  with pytest.raises(ValueError, match='looks at 4 of 2 samples'):
    steering.roll_out(early_stop.four, mute, samples=2, entropy_floor=0.1)
  with pytest.raises(ValueError, match='cannot differ'):
    early_stop.early(1)
