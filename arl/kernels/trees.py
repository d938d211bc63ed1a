"""Credit of sequences that grew out of one beginning.

`tree` is a level of whole sequences. What several sequences of a tree have in
common is one `node`, of which each of them has a copy; `copies` says how many.
Kernels read columns [B, T] and give a column [B, T]; nothing carries a
gradient.
"""

import jax
import jax.numpy as jnp

from arl import levels, ranges
from arl.kernels import advantages, states


def tree_normalize(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  tree: levels.Level,
  *,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """R normalized over its tree, and over the group, added up.

  Tree-GRPO (arXiv:2509.21240). The official code normalizes over the group
  first and over the tree then, which leaves the tree's score alone: that is
  `advantages.group_normalize` with the tree as its group. A tree of one leaf
  has no part, where the code gives its reward.
  """
  inner = advantages.group_normalize(rewards, mask, seq, tree, eps=eps)
  return inner + advantages.group_normalize(rewards, mask, seq, group, eps=eps)


def node_mean(
  advantage: jax.Array, mask: jax.Array, node: levels.Level
) -> jax.Array:
  """The mean advantage of the sequences that have a copy of a token.

  The hard form of ARPO (arXiv:2507.19849, official code read).
  """
  mean = levels.mean(advantage, node, mask)
  return jax.lax.stop_gradient(jnp.where(mask, mean, 0))


def by_branching(
  advantage: jax.Array,
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  node: levels.Level,
  *,
  kappa: ranges.NonNegative = 1.0,
  least: ranges.Positive = 0.5,
  most: ranges.Positive = 2.0,
) -> jax.Array:
  """A sequence's advantage, scaled by how much was decided after each node.

  Procedure scaling (APPO, arXiv:2606.12384), in our form: d of a node is the
  deviation of R over the sequences that have it, 0 where one has; a node is
  scaled by 1 + kappa (d - the mean d of the nodes of the sequence), over the
  mean of that over the sequence's tokens, cut at `least` and `most`. Without a
  branch it is the advantage. A sequence must lie in one row.
  """
  score = levels.total(jax.lax.stop_gradient(rewards), seq, mask)
  score = jnp.broadcast_to(score, mask.shape)
  own = node.ids.astype(score.dtype)
  after = states.following(own, mask, seq, jnp.asarray(-1, score.dtype))
  once = mask & (after != own)  # the last token of each node of a sequence
  spread = levels.std(score, node, once)
  mean = levels.mean(spread, seq, once)
  scale = jnp.maximum(1 + kappa * (spread - mean), 0)
  usual = levels.mean(scale, seq, mask)
  scale = jnp.clip(scale / jnp.where(usual > 0, usual, 1), least, most)
  return jax.lax.stop_gradient(jnp.where(mask, advantage * scale, 0))


def beginnings(
  rewards: jax.Array,
  copies: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  tree: levels.Level,
  *,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """What a beginning is worth, and then what each of its ends is.

  GRPO-MA (arXiv:2509.24494): on tokens that several sequences share, the mean R
  of their tree normalized over the trees of the group; on all others R
  normalized over the group. One beginning gives 0 on it.
  """
  score = levels.total(jax.lax.stop_gradient(rewards), seq, mask)
  value = levels.mean(score, tree, levels.once(seq, mask, tree))
  one = jnp.where(levels.last(tree, mask), value, 0)
  begun = advantages.group_normalize(one, mask, tree, group, eps=eps)
  ended = advantages.group_normalize(rewards, mask, seq, group, eps=eps)
  return jnp.where(mask, jnp.where(copies > 1, begun, ended), 0)


def once_of_copies(copies: jax.Array) -> jax.Array:
  """The importance 1 / copies: all copies of a token weigh as one token."""
  return 1 / jnp.maximum(copies, 1).astype(float)
