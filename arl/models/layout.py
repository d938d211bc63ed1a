"""How the arrays of a forward pass lie on a mesh, for modules that must know.

Most of a model is the same program wherever its arrays are, and the compiler
finds out what each device has to do. Two things are better said: where the keys
of a row come from when its tokens are split, and which experts a device has.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec


class Layout(NamedTuple):
  """A mesh, and what is split over its axes.

  Attributes:
    mesh: of the devices.
    rows: axes that rows are split over.
    experts: the axis that experts are split over; one of those of rows.
    width: the axis that hidden units are split over.
    tokens: the axis that the tokens of a row are split over. A model with such
      a layout runs within `over_tokens` alone.
  """

  mesh: Mesh
  rows: tuple[str, ...]
  experts: str
  width: str
  tokens: str

  @property
  def splits_tokens(self) -> bool:
    return self.mesh.shape[self.tokens] > 1


def over_tokens(
  layout: Layout, function: Callable, in_specs: Any, out_specs: Any
) -> Callable:
  """The function, each device with its part of the tokens of every row.

  Of the other axes it knows nothing: over those its arrays are whole.
  """
  return jax.shard_map(
    function,
    mesh=layout.mesh,
    in_specs=in_specs,
    out_specs=out_specs,
    axis_names={layout.tokens},
    check_vma=False,
  )


def over_rows(
  layout: Layout, function: Callable, in_specs: Any, out_specs: Any
) -> Callable:
  """The function on each device with its part, within `over_tokens` or not."""
  around = jax.sharding.get_abstract_mesh()
  mesh: Mesh | AbstractMesh = layout.mesh if around.empty else around
  names = {*layout.rows, layout.experts, layout.width}
  if not layout.splits_tokens:
    names.add(layout.tokens)
  return jax.shard_map(
    function,
    mesh=mesh,
    in_specs=in_specs,
    out_specs=out_specs,
    axis_names=names,
    check_vma=False,
  )


def whole(layout: Layout, table: jax.Array) -> jax.Array:
  """A table [V, D] that rows are looked up in, within `over_tokens`.

  Each is whole on its device. There the partitioner of XLA, as of jax 0.10,
  cannot look up in a table whose rows are split over an axis of the tokens.
  """
  spec = PartitionSpec(layout.width)
  if len(table) % layout.mesh.shape[layout.width]:
    spec = PartitionSpec()
  mesh = jax.sharding.get_abstract_mesh()
  return jax.lax.with_sharding_constraint(table, NamedSharding(mesh, spec))


def pick(scores: jax.Array, ids: jax.Array) -> jax.Array:
  """The scores [n, K] of ids [n, K] among all [n, V].

  Within `over_tokens` the partitioner cannot gather from scores that are split
  over a further axis either. One of them is added up from zeros there, for more
  the scores are made whole first.
  """
  if jax.sharding.get_abstract_mesh().empty:
    return jnp.take_along_axis(scores, ids, axis=-1)
  if ids.shape[1] == 1:
    here = jnp.arange(scores.shape[1])[None] == ids
    return jnp.where(here, scores, 0).sum(-1, keepdims=True)
  return jnp.take_along_axis(_whole_from(scores, 1), ids, axis=-1)


def reordered(x: jax.Array, order: jax.Array) -> jax.Array:
  """x [B, T, ...], the tokens of each row in another order, int [B, T]."""
  index = order.reshape(*order.shape, *(1,) * (x.ndim - 2))
  if jax.sharding.get_abstract_mesh().empty:
    return jnp.take_along_axis(x, index, axis=1)
  made = jnp.take_along_axis(_whole_from(x, 2), index, axis=1)
  return _whole_from(made, 2)


def _whole_from(x, side):
  """x, its sides from one on whole on their devices."""
  free = (PartitionSpec.UNCONSTRAINED,) * side
  spec = PartitionSpec(*free, *(None,) * (x.ndim - side))
  mesh = jax.sharding.get_abstract_mesh()
  return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))


def flat(layout: Layout) -> PartitionSpec:
  """Where tokens [B * T, ...] lie that were flattened from rows."""
  return PartitionSpec(layout.rows)


def by_rows(layout: Layout, x: jax.Array) -> jax.Array:
  """The states [B * T, ...] of tokens, each device with those of its rows.

  They come from a table whose width is split over axes of rows. Unless it is
  said here, XLA goes on with states split by width: the matrices then stay
  where they are, and the states of all tokens are summed over devices in every
  layer.
  """
  return jax.lax.with_sharding_constraint(
    x, NamedSharding(layout.mesh, flat(layout))
  )


def in_chunks(x: jax.Array, chunk: int) -> jax.Array:
  """[B, T, ...] as chunks of so many tokens, [count, rows, positions, ...].

  A chunk takes a few positions of every row; the last is filled up with zeros.
  Where it holds as many of each row it keeps rows apart, so that each device
  has those of its own; in one line with those of others they would be gathered
  and every device would compute all of them.
  """
  rows, length, *rest = x.shape
  high = math.gcd(rows, chunk)
  flat = jnp.moveaxis(x.reshape(-1, high, length, *rest), 2, 0)
  flat = flat.reshape(-1, high, *rest)
  tail = -len(flat) % (chunk // high)
  flat = jnp.pad(flat, ((0, tail), *((0, 0),) * (flat.ndim - 1)))
  return flat.reshape(-1, chunk // high, high, *rest).swapaxes(1, 2)


def from_chunks(x: jax.Array, shape: Sequence[int]) -> jax.Array:
  """What `in_chunks` made, back as [B, T, ...] of shape (B, T)."""
  rows, length = shape
  rest = x.shape[3:]
  flat = x.swapaxes(1, 2).reshape(-1, *rest)[: rows * length]
  return flat.reshape(length, rows, *rest).swapaxes(0, 1)
