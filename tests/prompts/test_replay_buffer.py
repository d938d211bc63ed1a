"""What a ring of groups holds and gives."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import test_select

from arl.prompts import replay


def item(name, *rewards, version=0, uses=0):
  group = test_select.group(name, *([r] for r in rewards))
  return replay.Item(group, version, uses)


def now(version=0, *, batch=4, max_age=2, progress=0.0, seed=0, score=None):
  rng = np.random.default_rng(seed)
  return replay.Now(version, batch, max_age, progress, rng, score)


def names(items):
  return [one.group.task.id for one in items]


def test_none_gives_what_comes():
  fresh = [item('a', 0, 1), item('b', 1)]
  drawn = replay.none().draw((), fresh, now())
  assert drawn.items == fresh and drawn.weights == [1, 1]
  assert drawn.buffer == () and drawn.facts == {}


def test_the_spread_is_the_mean_advantage():
  assert replay.spread(item('a', 1, 0, 0, 0).group) == pytest.approx(0.375)
  assert replay.spread(item('a', 1, 1).group) == 0


def test_priorities_and_their_weights_by_hand():
  chance = replay.chances(np.array([0.5, 0.0]), alpha=0.5, epsilon=0.25)
  raised = np.array([0.75**0.5, 0.25**0.5])
  np.testing.assert_allclose(chance, raised / raised.sum())
  weight = replay.importance(chance, beta=1.0)
  np.testing.assert_allclose(weight, [chance[1] / chance[0], 1])
  # With beta 1 the weighed draw is the uniform one.
  np.testing.assert_allclose(np.ptp(chance * weight), 0, atol=1e-12)
  np.testing.assert_allclose(replay.importance(chance, beta=0.0), [1, 1])


def steps(ring, count, *, seed=0, batch=3, fresh=3, max_age=2):
  """(drawn, buffer) of each of so many versions of fresh groups."""
  buffer, made = (), []
  for version in range(count):
    items = [
      item(f'{version}.{i}', *[j % (i + 2) == 0 for j in range(4)],
           version=version)
      for i in range(fresh)
    ]  # fmt: skip
    at = now(version, batch=batch, max_age=max_age, seed=(seed, version))
    drawn = ring.draw(buffer, items, at)
    buffer = drawn.buffer
    made.append((drawn, items))
  return made


def test_without_a_share_the_ring_is_no_ring():
  for drawn, items in steps(replay.mixture(size=9, share=0.0), 6):
    assert drawn.items == items and drawn.weights == [1.0] * 3
    assert drawn.facts['again'] == 0 and drawn.facts['age'] == 0


@hypothesis.given(
  st.integers(1, 12), st.floats(0, 1), st.integers(1, 3), st.integers(0, 3),
  st.integers(0, 5),
)  # fmt: skip
@hypothesis.settings(deadline=None, max_examples=40)
def test_no_item_is_too_old_or_used_too_often(size, share, uses, age, seed):
  ring = replay.mixture(size=size, share=share, max_uses=uses)
  count = {}
  for version, (drawn, _) in enumerate(steps(ring, 6, seed=seed, max_age=age)):
    assert len(drawn.buffer) <= size
    assert len(set(names(drawn.items))) == len(drawn.items)
    for one in drawn.items:
      assert version - one.version <= age
      count[one.group.task.id] = count.get(one.group.task.id, 0) + 1
      assert one.uses == count[one.group.task.id] - 1 < uses
    assert all(0 < w <= 1 for w in drawn.weights)


def test_nothing_leaves_uncounted():
  held, seen, lost = 0, 0, 0
  for drawn, items in steps(replay.mixture(size=5), 8):
    seen += len(items)
    lost += drawn.facts['lost']
    held = len(drawn.buffer)
  assert seen == lost + held


def test_varied_groups_are_drawn_more_often():
  buffer = (item('even', 1, 1, uses=1), item('odd', 1, 0, uses=1))
  ring = replay.mixture(size=4, share=1.0, alpha=1.0, epsilon=0.5)
  first = [
    names(ring.draw(buffer, [], now(1, batch=1, seed=i)).items)[0]
    for i in range(600)
  ]
  share = np.mean([name == 'odd' for name in first])
  assert abs(share - 2 / 3) < 4 * np.sqrt(2 / 9 / 600)  # 1 : 0.5


def test_the_weights_go_to_the_uniform_draw():
  buffer = (item('even', 1, 1, uses=1), item('odd', 1, 0, uses=1))
  ring = replay.mixture(size=4, share=1.0, alpha=1.0, epsilon=0.5, beta=0.0)
  weights = [
    ring.draw(buffer, [], now(1, batch=2, progress=at)).weights
    for at in (0.0, 1.0)
  ]
  assert weights[0] == [1.0, 1.0]
  assert sorted(weights[1]) == pytest.approx([0.5, 1.0]) or weights[1] == [1, 1]
