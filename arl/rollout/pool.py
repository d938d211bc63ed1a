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


def feed_slots(model, width, params, pool, last, feed):
  """Feeds slots new ids, after what other slots or they themselves hold.

  Args:
    model: the model.
    width: how many places of a slot are read: as many as a row will hold, or
      more.
    params: its weights.
    pool: the cache of all S slots.
    last: hidden [S, D] of the last token that each slot holds.
    feed: a Feed.

  Returns:
    pool and last.
  """
  cache, hidden = decoding.prefill(
    model,
    params,
    take(model, pool, feed.source, width),
    _rows(last, feed.source),
    feed.tokens,
    feed.start,
    feed.count,
  )
  last = last.at[feed.slot].set(hidden, mode='drop')
  return put(pool, feed.slot, cache), last


def decode_slots(model, columns, width, told, params, pool, last, steps, leave):
  """Samples from slots, see decoding.decode; moves rows out and back.

  Args:
    model: the model.
    columns: how many tokens of a row there is room for.
    width: how many places of a slot are read, as in `feed_slots`.
    told: a sampler.Told.
    params: its weights.
    pool: the cache of all S slots.
    last: hidden [S, D] of the last token that each slot holds.
    steps: a Steps.
    leave: as in decoding.decode.

  Returns:
    pool, last and what was sampled, as from decoding.decode.
  """
  some = take(model, pool, steps.slot, width), _rows(last, steps.slot)
  cache, hidden, result = _sample(
    model, columns, told, params, *some, steps, leave
  )
  last = last.at[steps.slot].set(hidden, mode='drop')
  return put(pool, steps.slot, cache), last, result


def decode_pool(model, columns, width, told, params, pool, last, steps, leave):
  """The same for as many rows as slots, in their order: no row is moved."""
  shapes = _shapes(model, len(last), width)
  cache = jax.tree.map(lambda held, shape: _cut(held, shape), pool, shapes)
  cache, last, result = _sample(
    model, columns, told, params, cache, last, steps, leave
  )
  return jax.tree.map(_paste, pool, cache), last, result


def take(model: Any, pool: Any, slots: Any, width: int) -> Any:
  """The first places of some slots; zeros for a slot that the pool lacks."""
  shapes = _shapes(model, len(pool[0].values), width)
  get = lambda held, shape: _rows(_cut(held, shape), slots)
  return jax.tree.map(get, pool, shapes)


def put(pool: Any, slots: Any, rows: Any) -> Any:
  """The pool with its slots' first places set; of one that it lacks dropped."""

  def set_(held, new):
    places = tuple(slice(0, n) for n in new.shape[1:])
    return held.at[(slots, *places)].set(new, mode='drop')

  return jax.tree.map(set_, pool, rows)


def _shapes(model, rows, width):
  return jax.eval_shape(lambda: model.cache(rows, width))


def _cut(held, shape):
  return jax.lax.slice(held, (0,) * held.ndim, shape.shape)


def _paste(held, new):
  return jax.lax.dynamic_update_slice(held, new, (0,) * held.ndim)


def _rows(held, slots):
  return held.at[slots].get(mode='fill', fill_value=0)


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
