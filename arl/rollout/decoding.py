"""Continuing cached sequences, compiled: prefill in chunks, then decode.

Pure functions of a model's parameters and caches. Which sequence lies in which
slot is the engine's business.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from arl.rollout import engine, sampler

CHUNK = 16  # prompt tokens a forward pass
_SHRINK = 4  # batch sizes are slots, slots / 4, slots / 16, ...
_SMALLEST = 8
# XLA's default fuses sums on CPU in ways that depend on the number of rows.
_ALIKE = {
  'xla_cpu_experimental_ynn_fusion_type': 'LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT'
}


def size(count: int, slots: int) -> int:
  """The smallest batch size of a pool of slots that holds so many rows."""
  size = slots
  while size // _SHRINK >= max(count, _SMALLEST):
    size //= _SHRINK
  return size


@functools.cache
def options() -> dict[str, str] | None:
  """Compiler options under which a row's numbers are its own.

  On CPU they are then the same bits in a batch of any size. None where the
  compiler does not know them; rows then agree to a few units in the last place.
  """
  if jax.default_backend() != 'cpu':
    return None
  try:
    jax.jit(lambda x: x, compiler_options=_ALIKE).lower(0).compile()
  except jax.errors.JaxRuntimeError:
    return None
  return _ALIKE


def check_experts(sampling: engine.Sampling, model: Any) -> None:
  """Refuses to tell the experts of a model without any.

  Raises:
    ValueError: it is asked to.
  """
  if sampling.experts and not any(model.experts):
    raise ValueError(
      'sampling: experts are asked of a model that has none; set experts to'
      ' False.'
    )


class Rows(NamedTuple):
  """The rows of one call: b sequences, S cache slots."""

  slot: Any  # int32 [b], which cache; out of range for a filler row
  fresh: Any  # bool [b], whether it starts afresh, from the opening
  tokens: Any  # int32 [b, S], the ids to feed, from column 0
  start: Any  # int32 [b], how many ids the cache or the opening holds
  count: Any  # int32 [b], how many ids to feed; 0 for a filler row
  limit: Any  # int32 [b], the most to sample
  paths: Any  # int32 [b, n], folded into the seed to keys [b]


class Course(NamedTuple):
  """How far b rows are and may go."""

  length: Any  # int32 [b], tokens that the cache holds
  done: Any  # int32 [b], how many were sampled before; numbers the next one
  limit: Any  # int32 [b], the most to sample, those included
  live: Any  # bool [b], whether to sample at all
  keys: Any  # typed keys [b]


def prefill(model, params, cache, tokens, start, count):
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
  return prefill(model, params, cache, tokens, start, count)[0]


def decode(model, params, cache, last, course, choose, ends, columns, leave):
  """Samples until every row ended, or it is time to leave.

  Args:
    model: the model.
    params: its weights.
    cache: of the rows.
    last: hidden [b, D] of each row's last token, which is in the cache.
    course: where the rows are.
    choose: (logits, keys) -> ids [b] and a tree of arrays [b, ...].
    ends: ids -> bool [b], whether they end a row.
    columns: how many tokens there is room for.
    leave: int32 (steps, ended): after so many steps, or as many ended rows.

  Returns:
    cache, last, and (ids [b, columns], the tree [b, columns, ...], how many
    tokens of each row, which rows stopped).
  """
  b = len(course.length)

  def going(carry):
    ended = jnp.sum(course.live & ~carry['live'])
    busy = (carry['i'] < leave[0]) & (ended < leave[1])
    return jnp.any(carry['live']) & busy

  def sample(last, i):
    logits = model.logits(params, last)
    return choose(
      logits, jax.vmap(jax.random.fold_in)(course.keys, course.done + i)
    )

  def advance(carry):
    i, live = carry['i'], carry['live']
    ids, told = sample(carry['last'], i)
    ended = ends(ids)
    more = live & ~ended & (course.done + i + 1 < course.limit)
    positions = jnp.where(more, course.length + i, -1)
    hidden, cache = jax.lax.cond(
      jnp.any(more),
      lambda: model.extend(
        params, ids[:, None], positions[:, None], carry['cache']
      ),
      lambda: (carry['last'][:, None], carry['cache']),
    )
    write = lambda old, new: jax.lax.dynamic_update_slice_in_dim(
      old, new[:, None], i, axis=1
    )
    return {
      'i': i + 1,
      'live': more,
      'last': jnp.where(more[:, None], hidden[:, 0], carry['last']),
      'cache': cache,
      'ids': write(carry['ids'], ids),
      'told': jax.tree.map(write, carry['told'], told),
      'count': carry['count'] + live.astype(jnp.int32),
      'stopped': carry['stopped'] | (live & ended),
    }

  shapes = jax.eval_shape(sample, last, jnp.int32(0))
  room = lambda x: jnp.zeros((b, columns, *x.shape[1:]), x.dtype)
  ids, told = jax.tree.map(room, shapes)
  never = jnp.zeros(b, bool)
  out = jax.lax.while_loop(
    going,
    advance,
    {
      'i': jnp.int32(0),
      'live': course.live,
      'last': last,
      'cache': cache,
      'ids': ids,
      'told': told,
      'count': jnp.zeros(b, jnp.int32),
      'stopped': never,
    },
  )
  result = out['ids'], out['told'], out['count'], out['stopped']
  return out['cache'], out['last'], result


def continue_rows(model, rule, stop, params, pool, opening, rows, numbers):
  """One call: cached rows out of the pool, prefill, decode, and back in."""
  fresh = rows.fresh[:, None, None, None]
  cache = jax.tree.map(
    lambda c, o: jnp.where(fresh, o, c), take(pool, rows.slot), opening
  )
  cache, last = prefill(
    model, params, cache, rows.tokens, rows.start, rows.count
  )
  b, width = rows.tokens.shape
  course = Course(
    length=rows.start + rows.count,
    done=jnp.zeros(b, jnp.int32),
    limit=rows.limit,
    live=rows.count > 0,
    keys=rows.paths,
  )

  def choose(logits, keys):
    ids, *told = sampler.choose(logits, keys, rule, *numbers)
    return ids, told

  def ends(ids):
    never = jnp.zeros(b, bool)
    return functools.reduce(jnp.logical_or, [ids == s for s in stop], never)

  cache, _, result = decode(
    model, params, cache, last, course, choose, ends, width, (width, b + 1)
  )
  return put(pool, rows.slot, cache), result


def take(pool: Any, slots: Any) -> Any:
  """Rows of a pool; zeros for a slot that it does not have."""
  get = lambda c: c.at[slots].get(mode='fill', fill_value=0)
  return jax.tree.map(get, pool)


def put(pool: Any, slots: Any, rows: Any) -> Any:
  """The pool with rows in it; those of a slot that it lacks are dropped."""
  return jax.tree.map(lambda p, c: p.at[slots].set(c, mode='drop'), pool, rows)
