"""Continuing cached sequences, compiled: prefill in chunks, then decode.

Pure functions of a model's parameters and caches. Which sequence lies in which
slot is the engine's business.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from arl.rollout import engine

CHUNK = 16  # tokens that are worth sharing
_FED = 128  # prompt tokens of all rows that a pass feeds, about
_LEAST, _MOST = 4, 64  # of one row
_SHRINK = 4  # batch sizes are slots, slots / 4, slots / 16, ...
_SMALLEST = 8
_NARROWEST = 64  # caches are read at widths of 64, 128, 256, ... slots
# XLA's default fuses sums on CPU in ways that depend on the number of rows, and
# on what else is read of what they are made of, such as by a gradient.
_ALIKE = {
  'xla_cpu_experimental_ynn_fusion_type': 'LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT'
}


def size(count: int, slots: int) -> int:
  """The smallest batch size of a pool of slots that holds so many rows."""
  size = slots
  while size // _SHRINK >= max(count, _SMALLEST):
    size //= _SHRINK
  return size


def width(tokens: int, most: int) -> int:
  """The narrowest that passes over caches of `most` slots read for so many."""
  width = min(_NARROWEST, most)
  while width < min(tokens, most):
    width *= 2
  return min(width, most)


@functools.cache
def options() -> dict[str, str] | None:
  """Compiler options under which a row's numbers are its own.

  On CPU they are then the same bits with and without a gradient, and, for
  matrices of up to 128 x 256, in a batch of any size: the first ratio of an
  update is 1 exactly. Products of some larger or odd widths are summed in
  another order where there are few rows (BUILD.md); those agree to a few units
  in the last place, as all do where the compiler does not know the options:
  None.
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


class Course(NamedTuple):
  """How far b rows are and may go."""

  length: Any  # int32 [b], tokens that the cache holds
  done: Any  # int32 [b], how many were sampled before; numbers the next one
  limit: Any  # int32 [b], the most to sample, those included
  live: Any  # bool [b], whether to sample at all
  keys: Any  # typed keys [b]


def prefill(model, params, cache, last, tokens, start, count):
  """Feeds each row's new ids in chunks, the shorter the more rows there are.

  Args:
    model: the model.
    params: its weights.
    cache: of the rows.
    last: hidden [b, D] of the last token that each holds.
    tokens: int32 [b, F], the ids to feed, from column 0; F a multiple of 64.
    start: int32 [b], how many ids the cache holds.
    count: int32 [b], how many to feed; 0 leaves a row as it is.

  Returns:
    cache and last.
  """
  chunk = _MOST
  while chunk > _LEAST and chunk * len(tokens) > _FED:
    chunk //= 2
  offsets = jnp.arange(chunk)

  def feed(i, carry):
    cache, last = carry
    at = i * chunk + offsets[None, :]
    real = at < count[:, None]
    ids = jax.lax.dynamic_slice_in_dim(tokens, i * chunk, chunk, 1)
    positions = jnp.where(real, start[:, None] + at, -1)
    hidden, cache = model.extend(params, ids, positions, cache)
    here = (count[:, None] - 1) == at
    picked = jnp.sum(jnp.where(here[..., None], hidden, 0), axis=1)
    return cache, jnp.where(jnp.any(here, axis=1)[:, None], picked, last)

  chunks = (jnp.max(count) + chunk - 1) // chunk
  return jax.lax.fori_loop(0, chunks, feed, (cache, last))


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
