"""Where arrays live: a mesh of five axes.

Rows of a batch are split over data, fsdp and expert, and within a forward pass
their tokens over context, see `arl.train.context`. Parameters are split over
fsdp, expert and tensor by rules, see `arl.train.partition`, and are whole on
each part of data and context. Devices of one tensor group are neighbours.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import ml_collections
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from arl import names
from arl.models import layout as layout_lib
from arl.train import partition

AXES = ('data', 'fsdp', 'expert', 'context', 'tensor')
OF_PARAMS = ('fsdp', 'expert', 'tensor')
_OF_ROWS = ('data', 'fsdp', 'expert')
_ROWS = PartitionSpec(_OF_ROWS)


def make_mesh(
  *,
  data: int = 1,
  fsdp: int = 1,
  expert: int = 1,
  context: int = 1,
  tensor: int = 1,
) -> Mesh:
  """A mesh over the first data * fsdp * expert * context * tensor devices.

  Raises:
    ValueError: there are not so many.
  """
  sizes = data, fsdp, expert, context, tensor
  wanted, devices = math.prod(sizes), jax.devices()
  if min(sizes) < 1 or wanted > len(devices):
    asked = ' x '.join(f'{name}={n}' for name, n in zip(AXES, sizes))
    raise ValueError(
      f'mesh: {asked} needs {wanted} devices, but there are {len(devices)}'
      f' ({devices[0].platform}); change config.mesh.'
    )
  if jax.process_count() > 1 and wanted < len(devices):
    raise ValueError(
      f'mesh: {wanted} of {len(devices)} devices; with several processes the'
      ' mesh takes all devices of all of them: change config.mesh.'
    )
  return Mesh(np.asarray(devices[:wanted]).reshape(sizes), AXES)


def mesh_of(
  config: ml_collections.ConfigDict,
) -> tuple[Mesh, partition.Rules]:
  """The mesh of a run, and the rules of parameters on it.

  Raises:
    ValueError: there are not so many devices, or a rule cannot be followed.
  """
  axes = config.mesh.to_dict()
  rules = names.resolve(axes.pop('rules'), 'arl.train')()
  partition.check(rules, OF_PARAMS)
  return make_mesh(**axes), rules


def layout(mesh: Mesh) -> layout_lib.Layout:
  """What the modules of a model must know of the mesh."""
  return layout_lib.Layout(mesh, _OF_ROWS, 'expert', 'tensor', 'context')


def keep_rows(tree: Any, mesh: Mesh) -> Any:
  """Within a jitted function: columns [B, ...] are split by rows alone."""
  sharding = NamedSharding(mesh, _ROWS)
  keep = lambda x: jax.lax.with_sharding_constraint(x, sharding)
  return jax.tree.map(keep, tree)


Place = Callable[..., NamedSharding]


def place_of(mesh: Mesh, rules: partition.Rules = partition.DECODER) -> Place:
  """(path, array or its shape) -> where a parameter lies."""

  def place(path, x):
    found = partition.spec(path, np.shape(x), mesh.shape, rules)
    return NamedSharding(mesh, found)

  return place


def born(function: Callable, place: Place | None) -> Callable:
  """The function, jitted; what it makes begins to be where it lies.

  Args:
    function: gives parameters, or what an optimizer keeps of them.
    place: where each lies; None for the device of the arguments.
  """

  def run(*given):
    if place is None:
      return jax.jit(function)(*given)
    made = jax.eval_shape(function, *given)
    homes = jax.tree_util.tree_map_with_path(place, made)
    return jax.jit(function, out_shardings=homes)(*given)

  return run


def shard_params(
  tree: Any, mesh: Mesh, rules: partition.Rules = partition.DECODER
) -> Any:
  """Puts parameters, or an optimizer's moments of them, on the mesh."""
  place = place_of(mesh, rules)
  put = lambda path, x: _put(x, place(path, x))
  return jax.tree_util.tree_map_with_path(put, tree)


def _put(x: Any, home: NamedSharding) -> jax.Array:
  """An array where it belongs; each process fills its own devices."""
  spread = isinstance(x, jax.Array) and not x.is_fully_addressable
  if spread or home.is_fully_addressable:
    return jax.device_put(x, home)
  host = np.asarray(x)
  return jax.make_array_from_callback(host.shape, home, lambda at: host[at])


def keep_params(
  tree: Any, mesh: Mesh, rules: partition.Rules = partition.DECODER
) -> Any:
  """Within a jitted function: arrays stay where `shard_params` puts them.

  Without it the compiler is free to place a result elsewhere, and the next call
  would be compiled anew.
  """
  place = place_of(mesh, rules)
  keep = lambda path, x: jax.lax.with_sharding_constraint(x, place(path, x))
  return jax.tree_util.tree_map_with_path(keep, tree)


def shard_rows(tree: Any, mesh: Mesh) -> Any:
  """Puts columns [B, ...] on the mesh, split by rows, and scalars on all."""

  def put(x):
    spec = _ROWS if np.ndim(x) else PartitionSpec()
    return _put(x, NamedSharding(mesh, spec))

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
