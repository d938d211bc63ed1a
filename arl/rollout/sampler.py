"""Choosing tokens from logits: pure functions, one row a sequence."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Rule(NamedTuple):
  """The static part of a sampling rule: what has to be compiled."""

  greedy: bool
  truncated: bool
  entropy: bool = False


def fold(seed: int, paths: jax.Array) -> jax.Array:
  """A key a row: the seed with each number of the row folded in, in order.

  Args:
    seed: of the engine.
    paths: int32 [B, n].

  Returns:
    Typed keys [B]. They depend on the row's numbers alone, so a sequence gets
    the same randomness in whatever batch it is sampled.
  """

  def one(path):
    # Not the default, which may be one that draws other numbers under vmap.
    key = jax.random.key(seed, impl='threefry2x32')
    for i in range(path.shape[0]):
      key = jax.random.fold_in(key, path[i])
    return key

  return jax.vmap(one)(paths)


def _keep(logits, top_p, top_k):
  """Sets logits outside the top k and the top-p nucleus to -inf.

  The nucleus is the smallest set of most likely tokens with mass >= top_p,
  among the top k. What ties with the last token kept is kept too.
  """
  ordered = jnp.sort(logits, axis=-1, descending=True)
  rank = jnp.arange(logits.shape[-1])[None, :]
  likely = rank < jnp.where(top_k > 0, top_k, logits.shape[-1])
  mass = jax.nn.softmax(jnp.where(likely, ordered, -jnp.inf), axis=-1)
  before = jnp.cumsum(mass, axis=-1) - mass
  # All of the mass may add up to a little less or more than 1.
  kept = likely & ((before < top_p) | (top_p >= 1))
  floor = jnp.min(jnp.where(kept, ordered, jnp.inf), axis=-1, keepdims=True)
  return jnp.where(logits >= floor, logits, -jnp.inf)


def choose(
  logits: jax.Array,
  keys: jax.Array,
  rule: Rule,
  temperature: jax.Array,
  top_p: jax.Array,
  top_k: jax.Array,
) -> tuple[jax.Array, ...]:
  """Samples one token a row.

  Args:
    logits: float32 [B, V].
    keys: typed keys [B].
    rule: what is compiled; greedy ignores the numbers below.
    temperature: scalar > 0.
    top_p: scalar in (0, 1].
    top_k: scalar, 0 for all.

  Returns:
    ids int32 [B] and their log-probs float32 [B] under the distribution they
    were sampled from; for greedy, under softmax(logits). Where the rule asks
    for it, also the entropy of that distribution, float32 [B].
  """
  if rule.greedy:
    ids = jnp.argmax(logits, axis=-1)
  else:
    logits = logits / temperature
    if rule.truncated:
      logits = _keep(logits, top_p, top_k)
    shape = logits.shape[-1:]
    noise = jax.vmap(lambda key: jax.random.gumbel(key, shape))(keys)
    ids = jnp.argmax(logits + noise, axis=-1)
  logp = jax.nn.log_softmax(logits, axis=-1)
  chosen = jnp.take_along_axis(logp, ids[:, None], axis=-1)[:, 0]
  if not rule.entropy:
    return ids.astype(jnp.int32), chosen
  surprise = jnp.where(jnp.isfinite(logp), -logp, 0)
  entropy = jnp.sum(jnp.exp(logp) * surprise, axis=-1)
  return ids.astype(jnp.int32), chosen, entropy
