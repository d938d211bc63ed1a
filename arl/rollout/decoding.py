"""Continuing cached sequences, compiled: prefill in chunks, then decode.

Pure functions of a model's parameters and caches. Which sequence lies in which
slot is the engine's business.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from arl.rollout import sampler

CHUNK = 16  # prompt tokens a forward pass


class Rows(NamedTuple):
  """The rows of one call: b sequences, S cache slots."""

  slot: Any  # int32 [b], which cache; out of range for a filler row
  fresh: Any  # bool [b], whether it starts afresh, from the opening
  tokens: Any  # int32 [b, S], the ids to feed, from column 0
  start: Any  # int32 [b], how many ids the cache or the opening holds
  count: Any  # int32 [b], how many ids to feed; 0 for a filler row
  limit: Any  # int32 [b], the most to sample
  paths: Any  # int32 [b, n], folded into the seed to keys [b]


def _prefill(model, params, cache, tokens, start, count):
  """Feeds each row's new ids in chunks; the last one's hidden [b, D]."""
  offsets = jnp.arange(CHUNK)

  def feed(i, carry):
    cache, last = carry
    at = i * CHUNK + offsets[None, :]
    real = at < count[:, None]
    ids = jax.lax.dynamic_slice_in_dim(tokens, i * CHUNK, CHUNK, 1)
    positions = jnp.where(real, start[:, None] + at, -1)
    hidden, cache = model.extend(params, ids, positions, cache)
    here = (count[:, None] - 1) == at
    picked = jnp.sum(jnp.where(here[..., None], hidden, 0), axis=1)
    return cache, jnp.where(jnp.any(here, axis=1)[:, None], picked, last)

  first = (tokens[:, :CHUNK],) * 2
  shape, _ = jax.eval_shape(model.extend, params, *first, cache)
  last = jnp.zeros((shape.shape[0], shape.shape[2]), shape.dtype)
  chunks = (jnp.max(count) + CHUNK - 1) // CHUNK
  return jax.lax.fori_loop(0, chunks, feed, (cache, last))


def open_cache(model, params, tokens, count):
  """The cache of one sequence [1, S] that others begin with."""
  cache = model.cache(*tokens.shape)
  start = jnp.zeros_like(count)
  return _prefill(model, params, cache, tokens, start, count)[0]


def _decode(model, params, cache, last, rows, choose, columns, stop):
  """Samples until every row stopped or reached its limit.

  `choose` gives ids and so many float columns.
  """
  b, width = rows.tokens.shape
  length = rows.start + rows.count
  keys = rows.paths
  never = jnp.zeros(b, bool)

  def going(carry):
    return jnp.any(carry['live'])

  def advance(carry):
    i, live = carry['i'], carry['live']
    logits = model.logits(params, carry['last'])
    ids, *sampled = choose(
      logits, jax.vmap(jax.random.fold_in, (0, None))(keys, i)
    )
    ended = functools.reduce(jnp.logical_or, [ids == s for s in stop], never)
    more = live & ~ended & (i + 1 < rows.limit)
    positions = jnp.where(more, length + i, -1)
    hidden, cache = jax.lax.cond(
      jnp.any(more),
      lambda: model.extend(
        params, ids[:, None], positions[:, None], carry['cache']
      ),
      lambda: (carry['last'][:, None], carry['cache']),
    )
    put = functools.partial(jax.lax.dynamic_update_slice_in_dim, axis=1)
    return {
      'i': i + 1,
      'live': more,
      'last': hidden[:, 0],
      'cache': cache,
      'ids': put(carry['ids'], ids[:, None], i),
      'columns': [
        put(made, new[:, None], i)
        for made, new in zip(carry['columns'], sampled)
      ],
      'count': carry['count'] + live.astype(jnp.int32),
      'stopped': carry['stopped'] | (live & ended),
    }

  out = jax.lax.while_loop(
    going,
    advance,
    {
      'i': jnp.int32(0),
      'live': rows.count > 0,
      'last': last,
      'cache': cache,
      'ids': jnp.zeros((b, width), jnp.int32),
      'columns': [jnp.zeros((b, width), jnp.float32)] * columns,
      'count': jnp.zeros(b, jnp.int32),
      'stopped': never,
    },
  )
  sampled = out['ids'], out['columns']
  return out['cache'], (*sampled, out['count'], out['stopped'])


def continue_rows(model, rule, stop, params, pool, opening, rows, numbers):
  """One call: cached rows out of the pool, prefill, decode, and back in."""
  fresh = rows.fresh[:, None, None, None]
  cache = jax.tree.map(
    lambda c, o: jnp.where(
      fresh, o, c.at[rows.slot].get(mode='fill', fill_value=0)
    ),
    pool,
    opening,
  )
  cache, last = _prefill(
    model, params, cache, rows.tokens, rows.start, rows.count
  )

  def choose(logits, keys):
    return sampler.choose(logits, keys, rule, *numbers)

  columns = 1 + rule.entropy
  cache, result = _decode(
    model, params, cache, last, rows, choose, columns, stop
  )
  pool = jax.tree.map(
    lambda p, c: p.at[rows.slot].set(c, mode='drop'), pool, cache
  )
  return pool, result
