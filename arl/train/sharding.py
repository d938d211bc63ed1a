"""Where arrays live: a mesh with a data and an fsdp axis.

Rows of a batch are split over both axes; each parameter is split over fsdp
along its largest divisible dimension and replicated over data.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXES = ('data', 'fsdp')
_ROWS = PartitionSpec(AXES)


def make_mesh(*, data: int, fsdp: int) -> Mesh:
  """A mesh over the first data * fsdp devices.

  Raises:
    ValueError: there are not so many.
  """
  devices = jax.devices()
  if data < 1 or fsdp < 1 or data * fsdp > len(devices):
    raise ValueError(
      f'mesh: data={data} x fsdp={fsdp} needs {data * fsdp} devices, but there'
      f' are {len(devices)} ({devices[0].platform}); change config.mesh.'
    )
  grid = np.asarray(devices[: data * fsdp]).reshape(data, fsdp)
  return Mesh(grid, AXES)


def _spec(shape: tuple[int, ...], fsdp: int) -> PartitionSpec:
  divisible = [d for d in range(len(shape)) if shape[d] % fsdp == 0]
  if fsdp == 1 or not divisible or len(shape) < 2:
    return PartitionSpec()
  widest = max(divisible, key=lambda d: shape[d])
  return PartitionSpec(*(None,) * widest, 'fsdp')


def shard_params(tree: Any, mesh: Mesh) -> Any:
  """Puts parameters, or an optimizer's moments of them, on the mesh."""

  def put(x):
    spec = _spec(np.shape(x), mesh.shape['fsdp'])
    return jax.device_put(x, NamedSharding(mesh, spec))

  return jax.tree.map(put, tree)


def keep_params(tree: Any, mesh: Mesh) -> Any:
  """Within a jitted function: arrays stay where `shard_params` puts them.

  Without it the compiler is free to place a result elsewhere, and the next call
  would be compiled anew.
  """

  def keep(x):
    spec = _spec(x.shape, mesh.shape['fsdp'])
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))

  return jax.tree.map(keep, tree)


def shard_rows(tree: Any, mesh: Mesh) -> Any:
  """Puts columns [B, ...] on the mesh, split by rows, and scalars on all."""

  def put(x):
    spec = _ROWS if np.ndim(x) else PartitionSpec()
    return jax.device_put(x, NamedSharding(mesh, spec))

  return jax.tree.map(put, tree)


def check_rows(rows: int, mesh: Mesh) -> None:
  """Raises ValueError unless a microbatch divides over the mesh."""
  devices = mesh.size
  if rows % devices:
    raise ValueError(
      f'mesh: a microbatch of {rows} rows does not divide over {devices}'
      f' devices; make config.updates.microbatch a multiple of {devices}.'
    )


def microbatches(
  tree: Any, microbatch: int, mesh: Mesh
) -> Callable[[jax.Array], Any]:
  """Cuts a tree of [B, ...] and scalars: index -> the tree of that microbatch.

  Each microbatch is split over the mesh by rows; a scalar is in all of them.
  """
  sharding = NamedSharding(mesh, PartitionSpec(None, AXES))

  def cut(x):
    if not x.ndim:
      return x
    parts = x.reshape(-1, microbatch, *x.shape[1:])
    return jax.lax.with_sharding_constraint(parts, sharding)

  parts = jax.tree.map(cut, tree)
  return lambda i: jax.tree.map(
    lambda part, x: part[i] if x.ndim else x, parts, tree
  )
