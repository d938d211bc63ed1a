"""Where arrays live: a mesh of four axes.

Rows of a batch are split over data, fsdp and expert. Parameters are split over
fsdp, expert and tensor by rules, see `arl.train.partition`, and are whole on
each part of data. Devices of one tensor group are neighbours.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from arl.train import partition

AXES = ('data', 'fsdp', 'expert', 'tensor')
_OF_ROWS = ('data', 'fsdp', 'expert')
_ROWS = PartitionSpec(_OF_ROWS)


def make_mesh(
  *, data: int = 1, fsdp: int = 1, expert: int = 1, tensor: int = 1
) -> Mesh:
  """A mesh over the first data * fsdp * expert * tensor devices.

  Raises:
    ValueError: there are not so many.
  """
  sizes = data, fsdp, expert, tensor
  wanted, devices = math.prod(sizes), jax.devices()
  if min(sizes) < 1 or wanted > len(devices):
    asked = ' x '.join(f'{name}={n}' for name, n in zip(AXES, sizes))
    raise ValueError(
      f'mesh: {asked} needs {wanted} devices, but there are {len(devices)}'
      f' ({devices[0].platform}); change config.mesh.'
    )
  return Mesh(np.asarray(devices[:wanted]).reshape(sizes), AXES)


def _place(mesh: Mesh, rules: partition.Rules) -> Callable[..., NamedSharding]:
  """(path, array) -> where it lies."""

  def place(path, x):
    found = partition.spec(path, np.shape(x), mesh.shape, rules)
    return NamedSharding(mesh, found)

  return place


def shard_params(
  tree: Any, mesh: Mesh, rules: partition.Rules = partition.DECODER
) -> Any:
  """Puts parameters, or an optimizer's moments of them, on the mesh."""
  place = _place(mesh, rules)
  put = lambda path, x: jax.device_put(x, place(path, x))
  return jax.tree_util.tree_map_with_path(put, tree)


def keep_params(
  tree: Any, mesh: Mesh, rules: partition.Rules = partition.DECODER
) -> Any:
  """Within a jitted function: arrays stay where `shard_params` puts them.

  Without it the compiler is free to place a result elsewhere, and the next call
  would be compiled anew.
  """
  place = _place(mesh, rules)
  keep = lambda path, x: jax.lax.with_sharding_constraint(x, place(path, x))
  return jax.tree_util.tree_map_with_path(keep, tree)


def shard_rows(tree: Any, mesh: Mesh) -> Any:
  """Puts columns [B, ...] on the mesh, split by rows, and scalars on all."""

  def put(x):
    spec = _ROWS if np.ndim(x) else PartitionSpec()
    return jax.device_put(x, NamedSharding(mesh, spec))

  return jax.tree.map(put, tree)


def check_rows(rows: int, mesh: Mesh) -> None:
  """Raises ValueError unless a microbatch divides over the mesh."""
  devices = math.prod(mesh.shape[name] for name in _OF_ROWS)
  if rows % devices:
    raise ValueError(
      f'mesh: a microbatch of {rows} rows does not divide over {devices}'
      f' devices of {" x ".join(_OF_ROWS)}; make config.updates.microbatch a'
      f' multiple of {devices}.'
    )


def microbatches(
  tree: Any, microbatch: int, mesh: Mesh
) -> Callable[[jax.Array], Any]:
  """Cuts a tree of [B, ...] and scalars: index -> the tree of that microbatch.

  Each microbatch is split over the mesh by rows; a scalar is in all of them.
  """
  sharding = NamedSharding(mesh, PartitionSpec(None, _OF_ROWS))

  def cut(x):
    if not x.ndim:
      return x
    parts = x.reshape(-1, microbatch, *x.shape[1:])
    return jax.lax.with_sharding_constraint(parts, sharding)

  parts = jax.tree.map(cut, tree)
  return lambda i: jax.tree.map(
    lambda part, x: part[i] if x.ndim else x, parts, tree
  )
