"""Columns with more than one number a token, packed like any other."""

import numpy as np
import pytest
import tiny

from arl.rollout import pack

SHAPE = 3, 2  # layers, experts of a token
PACKING = {'rows': 5, 'width': 12, 'max_turns': 2}
WIDE = {'extras': ['routed_experts'], 'wide': {'routed_experts': SHAPE}}


def routed(members, dtype=np.int32):
  """The episodes with random experts, and none for the last token of each."""
  rng = np.random.default_rng(0)
  made = []
  for e in members:
    ids = rng.integers(0, 6, (len(e.tokens), *SHAPE)).astype(dtype)
    ids[-1] = -1
    made.append(e._replace(extras={**e.extras, 'routed_experts': ids}))
  return made


@pytest.mark.parametrize('how', [pack.pad, pack.pack])
def test_it_lies_where_its_tokens_do(how):
  members = routed(tiny.episodes(1, 4, longest=6))
  batch = how(members, **PACKING, **WIDE)
  column = batch.extras['routed_experts']
  assert column.shape == (5, 12, *SHAPE) and column.dtype == np.int32
  for i, e in enumerate(members):
    at = (batch.seq.ids == i) & (batch.segments > 0)
    np.testing.assert_array_equal(column[at], e.extras['routed_experts'])
  assert np.all(column[batch.segments == 0] == -1)


def test_of_a_group_that_must_stay_whole():
  members = routed(tiny.episodes(1, 2))
  arguments = {**PACKING, 'rows': 4, 'block': 2, **WIDE}
  batch = pack.pack_whole([members], **arguments)
  at = (batch.seq.ids == 1) & (batch.segments > 0)
  found = batch.extras['routed_experts'][at]
  np.testing.assert_array_equal(found, members[1].extras['routed_experts'])


def test_an_update_without_episodes_has_the_same_shape():
  filled = pack.pack(routed(tiny.episodes(1, 2)), **PACKING, **WIDE)
  empty = pack.pack([], **PACKING, **WIDE)
  joined = pack.concatenate([filled, empty])
  column = joined.extras['routed_experts']
  assert column.shape == (10, 12, *SHAPE) and np.all(column[5:] == -1)


@pytest.mark.parametrize('shape', [(), (3,), (2, 3), (3, 2, 1)])
def test_another_shape_is_refused(shape):
  (member,) = tiny.episodes(1, 1)
  ids = np.zeros((len(member.tokens), *shape), np.int32)
  member = member._replace(extras={'routed_experts': ids})
  with pytest.raises(ValueError, match=r'numbers, an array \(3, 2\) a token'):
    pack.pack([member], **PACKING, **WIDE)
