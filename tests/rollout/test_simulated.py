"""The laws of the gate and of the window, whatever takes how long."""

import math

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from arl.rollout import simulated, staleness

TIMES = {
  'alike': lambda rng: 1.0,
  'even': lambda rng: float(rng.uniform(0.1, 4)),
  'heavy': lambda rng: float(rng.lognormal(0, 1.5)),
  'two': lambda rng: 30.0 if rng.random() < 0.1 else 0.5,
}
PLANS = st.builds(
  simulated.Plan,
  seconds=st.sampled_from(sorted(TIMES)).map(TIMES.get),
  updates=st.just(12),
  per_update=st.integers(1, 5),
  concurrent=st.integers(1, 16),
  lag=st.integers(0, 4),
  width=st.sampled_from([1, 2, 4, 8, math.inf]),
  update=st.sampled_from([0.0, 0.7, 5.0]),
  deadline=st.sampled_from([math.inf, 8.0]),
  fails=st.sampled_from([0.0, 0.3]),
  killed=st.lists(st.integers(1, 11), max_size=2).map(tuple),
  every=st.integers(1, 5),
)


@hypothesis.given(PLANS, st.integers(0, 9))
@hypothesis.settings(deadline=None)
def test_nothing_is_too_old_lost_or_trained_twice(plan, seed):
  seen = simulated.run(plan, seed)
  assert len(seen.used) == plan.updates * plan.per_update
  numbers = [one.number for one in seen.used]
  assert len(set(numbers)) == len(numbers)
  for place, one in enumerate(seen.used):
    assert one.version == place // plan.per_update
    assert 0 <= one.version - one.began <= plan.lag
    assert 0 <= one.number - one.head < plan.width
    assert one.seconds <= plan.deadline
  # Each number is trained on, lost for a reason, or still under way.
  left = len(seen.issued) - len(numbers) - sum(seen.lost.values())
  assert 0 <= left <= (plan.lag + 1) * plan.per_update + plan.concurrent
  if not plan.killed:
    assert not seen.lost['restart']
  if plan.deadline == math.inf:
    assert not seen.lost['late']


def test_the_gate_alone_would_let_the_slow_grow_old():
  # Of two at a time one never ends: others overtake it, update by update.
  bounds = {'per_update': 1, 'concurrent': 2, 'lag': 1}
  for version in range(10):
    assert staleness.capacity(version, version, 1, **bounds) >= 1
  assert staleness.stale(0, 9, lag=1)
  # In the order of issue it is used in time, or nothing more is issued.
  assert staleness.capacity(0, 1, 1, **bounds) == 0


@pytest.mark.parametrize('lag', range(4))
def test_a_restart_counts_as_if_all_before_had_been_accepted(lag):
  bounds = {'per_update': 4, 'concurrent': 99, 'lag': lag}
  room = staleness.capacity(7, staleness.restored(7, 4), 0, **bounds)
  assert room == 4 * (lag + 1)


def test_synchronous_rollouts_never_wait_for_an_update():
  plan = simulated.Plan(TIMES['alike'], updates=5, per_update=4, lag=0)
  seen = simulated.run(plan, 0)
  assert seen.seconds == 5 * (1 + 1) and seen.waiting == 5
  assert [one.version - one.began for one in seen.used] == [0] * 20
  ahead = simulated.run(plan._replace(lag=1), 0)
  assert ahead.seconds < seen.seconds and ahead.waiting == 1


def test_a_wider_window_waits_less_and_uses_what_is_quick():
  plan = simulated.Plan(
    TIMES['heavy'], updates=8, concurrent=64, lag=20, update=0.2
  )
  waits, lengths = {}, {}
  for width in (1, 8, math.inf):
    runs = [simulated.run(plan._replace(width=width), s) for s in range(20)]
    waits[width] = np.mean([seen.waiting for seen in runs])
    lengths[width] = np.mean([u.seconds for seen in runs for u in seen.used])
  assert waits[1] > waits[8] > waits[math.inf]
  assert lengths[1] > lengths[8] > lengths[math.inf]


def test_a_seed_decides_a_run():
  plan = simulated.Plan(TIMES['heavy'], updates=6, fails=0.2, killed=(4,))
  assert simulated.run(plan, 3) == simulated.run(plan, 3)
  assert simulated.run(plan, 3).used != simulated.run(plan, 4).used
