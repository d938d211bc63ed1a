"""What is replayed, what is refused, and where the routers disagree."""

import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl.models import sizes
from arl.train import routing

REPLAY = routing.Replay(layers=2, chosen=2, experts=6)


def test_what_is_replayed():
  assert routing.replay('own', sizes.tiny()) is None
  assert routing.replay('own', sizes.tiny_moe()) is None
  assert routing.replay('rollout', sizes.tiny_moe()) == REPLAY
  large = routing.replay('rollout', sizes.qwen3_30b_a3b())
  assert large == routing.Replay(layers=48, chosen=8, experts=128)
  part = sizes.Mixture(6, 2, 24, dense=(1,))
  some = routing.replay('rollout', sizes.tiny_moe()._replace(mixture=part))
  assert some == REPLAY._replace(dense=(1,))


@pytest.mark.parametrize(
  'kind, size, match',
  [
    ('rollouts', sizes.tiny_moe(), "'rollouts'; set it to 'own', or to"),
    ('rollout', sizes.tiny(), 'a llama, has no experts to replay'),
  ],
)
def test_what_cannot_be(kind, size, match):
  with pytest.raises(ValueError, match=match):
    routing.replay(kind, size)


def routed(ids):
  (member,) = tiny.episodes(1, 1)
  made = np.zeros((len(member.tokens), 2, 2), np.int32)
  made[...], made[-1] = [0, 1], -1
  extras = {} if ids is None else {'routed_experts': ids(made)}
  return [member._replace(extras=extras)]


def changed(value):
  def change(ids):
    ids[0, 1, 0] = value
    return ids

  return change


def test_experts_that_fit():
  for value in (-1, 0, 5):
    routing.check(routed(changed(value)), REPLAY)
  ordinary = REPLAY._replace(dense=(0, 1))
  routing.check(routed(np.zeros_like), ordinary)


@pytest.mark.parametrize(
  'ids, match',
  [
    (None, "'task/0' does not say which experts its tokens went through"),
    (lambda ids: ids[:-1], r"'task/0' has experts int32 \(\d+, 2, 2\), but"),
    (lambda ids: ids[:, :1], r'the policy wants integers \(\d+, 2, 2\)'),
    (lambda ids: ids[..., 0], 'sample from a model of the same sizes'),
    (lambda ids: ids.astype(np.float32), 'has experts float32'),
    (changed(6), 'has experts from -1 to 6, but a layer of the policy has 0'),
    (changed(-2), 'has experts from -2 to 1'),
    (changed(1), 'went through one expert twice in a layer'),
    (np.zeros_like, 'its engine did not record them all'),
  ],
)
def test_experts_that_do_not(ids, match):
  with pytest.raises(ValueError, match=match):
    routing.check(routed(ids), REPLAY)


def test_where_the_routers_disagree():
  given = jnp.array(
    [
      [[0, 1], [2, 3]],  # the same
      [[1, 0], [3, 2]],  # in another order
      [[0, 1], [2, 4]],  # another in the second layer
      [[-1, -1], [2, 4]],  # the first is not known
      [[-1, -1], [-1, -1]],
    ]
  )[None]
  own = jnp.broadcast_to(jnp.array([[0, 1], [2, 3]]), given.shape)
  # Of the token before each: the first has none, of the last nothing is said.
  differs, known = routing.differs(given, own), routing.known(given)
  assert differs[0].tolist() == [False, False, False, True, True]
  assert known[0].tolist() == [False, True, True, True, False]
