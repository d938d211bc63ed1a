"""Choosing tokens from logits: pure functions, one row a sequence."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Rule(NamedTuple):
  """The static part of a sampling rule: what has to be compiled."""

  greedy: bool
  truncated: bool
  entropy: bool = False


class Told(NamedTuple):
  """What `choose_each` tells of each token beside its log-prob.

  Attributes:
    truncated: whether a row keeps less than everything.
    entropy: the entropy of what it was sampled from.
    top: how many of the likeliest ids and their log-probs.
    kept: which ids it was sampled from.
  """

  truncated: bool = False
  entropy: bool = False
  top: int = 0
  kept: bool = False


class Numbers(NamedTuple):
  """The sampling rule of each of b rows."""

  temperature: Any  # float32 [b, 1], > 0; 1 for a greedy row
  greedy: Any  # bool [b, 1]
  top_p: Any  # float32 [b, 1]; 1 keeps all
  top_k: Any  # int32 [b, 1]; 0 keeps all
  min_p: Any  # float32 [b, 1], of the likeliest one's probability; 0 keeps all
  banned: Any  # int32 [b, m], ids that a row must not sample; V for none
  watched: Any  # int32 [b, n], ids whose log-probs are told as well


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
    ids = _first_best(logits)
  else:
    logits = logits / temperature
    if rule.truncated:
      logits = _keep(logits, top_p, top_k)
    shape = logits.shape[-1:]
    noise = jax.vmap(lambda key: jax.random.gumbel(key, shape))(keys)
    ids = _first_best(logits + noise)
  logp = jax.nn.log_softmax(logits, axis=-1)
  chosen = jnp.take_along_axis(logp, ids[:, None], axis=-1)[:, 0]
  if not rule.entropy:
    return ids, chosen
  return ids, chosen, _entropy(logp)


def choose_each(
  logits: jax.Array, keys: jax.Array, numbers: Numbers, told: Told
) -> tuple[jax.Array, dict[str, Any]]:
  """Samples one token a row, each row by its own rule.

  A row gets what `choose` gives it for the same numbers, bit for bit.

  Args:
    logits: float32 [b, V].
    keys: typed keys [b].
    numbers: the rules.
    told: what is compiled.

  Returns:
    ids int32 [b], and by name: 'logp' float32 [b], of what they were sampled
    from; 'watched' [b, n] and 'top' (ids, log-probs), both [b, top], before
    anything was left out; 'entropy' [b]; 'kept' bool [b, V].
  """
  rows = jnp.arange(len(logits))[:, None]
  logits = logits.at[rows, numbers.banned].set(-jnp.inf, mode='drop')
  logits = logits / numbers.temperature
  full = jax.nn.log_softmax(logits, axis=-1)
  if told.truncated:
    logits = _keep(logits, numbers.top_p, numbers.top_k)
    floor = jnp.max(logits, -1, keepdims=True) + jnp.log(numbers.min_p)
    logits = jnp.where(logits >= floor, logits, -jnp.inf)
  shape = logits.shape[-1:]
  noise = jax.lax.cond(
    jnp.all(numbers.greedy),
    lambda: jnp.zeros_like(logits),
    lambda: jax.vmap(lambda key: jax.random.gumbel(key, shape))(keys),
  )
  drawn = _first_best(logits + jnp.where(numbers.greedy, 0, noise))
  logp = jax.nn.log_softmax(logits, axis=-1) if told.truncated else full
  take = lambda values, at: jnp.take_along_axis(values, at, axis=-1)
  at = drawn[:, None]
  made: dict[str, Any] = {'logp': take(logp, at)[:, 0]}
  made['watched'] = take(full, numbers.watched)
  if told.entropy:
    made['entropy'] = _entropy(logp)
  if told.top:
    values, ids = jax.lax.top_k(full, told.top)
    made['top'] = ids.astype(jnp.int32), values
  if told.kept:
    made['kept'] = jnp.isfinite(logits)
  return drawn, made


def _first_best(scores):
  """argmax, int32 [b], in two passes; XLA's one is slow on CPU where fused."""
  ids = jnp.arange(scores.shape[-1], dtype=jnp.int32)[None]
  best = scores == jnp.max(scores, axis=-1, keepdims=True)
  # Of scores that are no numbers, none is the best: the last id, for any.
  return jnp.min(jnp.where(best, ids, ids[0, -1]), axis=-1)


def _entropy(logp):
  surprise = jnp.where(jnp.isfinite(logp), -logp, 0)
  return jnp.sum(jnp.exp(logp) * surprise, axis=-1)
