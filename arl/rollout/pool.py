"""Compiled passes over a pool of cache slots: feeding and sampling from some.

Pure functions. Unlike decoding.continue_rows they leave rows where they are
between calls, so that others can come and go.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from arl.rollout import decoding, sampler


class Feed(NamedTuple):
  """What to feed p of S slots, F columns at most."""

  slot: Any  # int32 [p], which; S for a filler row
  source: Any  # int32 [p], whose cache to start from; S for an empty one
  tokens: Any  # int32 [p, F], the ids to feed, from column 0
  start: Any  # int32 [p], how many ids the source holds of it
  count: Any  # int32 [p], how many ids to feed; 0 for a filler row


class Steps(NamedTuple):
  """What to sample from b of S slots; see Course."""

  slot: Any  # int32 [b]; S for a filler row
  length: Any
  done: Any
  limit: Any
  live: Any
  keys: Any  # uint32 [b, 2]
  stop: Any  # int32 [b, m], ids that end a row; -1 for none
  numbers: sampler.Numbers


def feed_slots(model, params, pool, last, feed):
  """Feeds slots new ids, after what other slots or they themselves hold.

  Args:
    model: the model.
    params: its weights.
    pool: the cache of all S slots.
    last: hidden [S, D] of the last token that each slot holds.
    feed: a Feed.

  Returns:
    pool and last.
  """
  cache = decoding.take(pool, feed.source)
  cache, hidden = decoding.prefill(
    model, params, cache, feed.tokens, feed.start, feed.count
  )
  return decoding.put(pool, feed.slot, cache), decoding.put(
    last, feed.slot, hidden
  )


def decode_slots(model, columns, told, params, pool, last, steps, leave):
  """Samples from slots, see decoding.decode; moves rows out and back."""
  some = decoding.take(pool, steps.slot), decoding.take(last, steps.slot)
  cache, hidden, result = _sample(
    model, columns, told, params, *some, steps, leave
  )
  return (
    decoding.put(pool, steps.slot, cache),
    decoding.put(last, steps.slot, hidden),
    result,
  )


def decode_pool(model, columns, told, params, pool, last, steps, leave):
  """The same for as many rows as slots, in their order, moving nothing."""
  return _sample(model, columns, told, params, pool, last, steps, leave)


def _sample(model, columns, told, params, cache, last, steps, leave):
  keys = jax.random.wrap_key_data(steps.keys, impl='threefry2x32')
  course = decoding.Course(
    steps.length, steps.done, steps.limit, steps.live, keys
  )

  def choose(logits, keys):
    return sampler.choose_each(logits, keys, steps.numbers, told)

  def ends(ids):
    return jnp.any(ids[:, None] == steps.stop, axis=1)

  return decoding.decode(
    model, params, cache, last, course, choose, ends, columns, leave
  )
