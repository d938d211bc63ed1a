"""Tensors of files become parameters on devices, one at a time.

No more of a tensor is read than the devices of this process hold.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from arl.models import hf_files

Tensor = np.ndarray | hf_files.Stored
# (path, shape and dtype) -> where a parameter lies.
Place = Callable[[tuple[Any, ...], jax.ShapeDtypeStruct], jax.sharding.Sharding]
_ROWS = 1024  # that are compared at a time


class Leaf(NamedTuple):
  """Where a tensor of a file lives in params.

  Attributes:
    path: of the parameter.
    part: () for all of it, (e,) for that of an expert.
    shape: in the file.
    turned: whether that is [out, in], and the parameter's [in, out].
  """

  path: tuple[str, ...]
  part: tuple[int, ...]
  shape: tuple[int, ...]
  turned: bool


def parameter(
  path: tuple[str, ...],
  pieces: Sequence[tuple[Tensor, Leaf]],
  cast: str | None,
  place: Place | None,
) -> jax.Array:
  """The one tensor of a parameter, or those of its experts stacked."""
  tensors, leaf = [tensor for tensor, _ in pieces], pieces[0][1]
  kinds = {str(tensor.dtype) for tensor in tensors}
  if len(kinds) > 1 and not cast:
    raise ValueError(
      f'the experts of {"/".join(path)} are of {sorted(kinds)}; name one dtype:'
      ' load(..., cast=...).'
    )
  kind = jnp.dtype(cast) if cast else tensors[0].dtype
  sides = leaf.shape[::-1] if leaf.turned else leaf.shape
  stacked = (len(tensors),) * len(leaf.part)

  def read(index: tuple[slice, ...]) -> np.ndarray:
    of_sides = index[len(stacked) :]
    if leaf.turned:
      of_sides = of_sides[::-1]
    chosen = tensors[index[0]] if stacked else tensors
    parts = [tensor[of_sides].astype(kind) for tensor in chosen]
    parts = [part.T if leaf.turned else part for part in parts]
    return np.stack(parts) if stacked else parts[0]

  shape = *stacked, *sides
  if place is None:
    return jnp.asarray(read((slice(None),) * len(shape)))
  keys = tuple(jax.tree_util.DictKey(key) for key in path)
  home = place(keys, jax.ShapeDtypeStruct(shape, kind))
  return jax.make_array_from_callback(shape, home, _once(read))


def _once(read: Callable) -> Callable:
  """Reads each part once, however many devices hold it."""
  known: dict[tuple, np.ndarray] = {}

  def remembering(index):
    key = tuple((side.start, side.stop) for side in index)
    if key not in known:
      known[key] = read(index)
    return known[key]

  return remembering


def same(one: Tensor, other: Tensor) -> bool:
  """Whether two tensors hold the same bits, looking at some rows at a time."""
  if (one.dtype, one.shape) != (other.dtype, other.shape):
    return False
  rows = one.shape[0]
  parts = [slice(i, min(i + _ROWS, rows)) for i in range(0, rows, _ROWS)]
  bits = lambda tensor, part: tensor[part, slice(None)].tobytes()
  return all(bits(one, part) == bits(other, part) for part in parts)
