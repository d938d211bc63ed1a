"""Low-rank adapters beside projections (LoRA, Hu et al., arXiv:2106.09685).

A projection of x that has an adapter is x W + scale (x down) up, with
scale = alpha / rank: W [in, out] stays, down [in, rank] and up [rank, out] are
learnt. An adapter lies in the params beside the kernel, under ADAPTER, its
scale included, so that params say all there is to compute with; every function
of a model takes params with adapters or without.

As in the paper `up` begins at 0, so that a new adapter changes nothing, and
`down` as a Gaussian, here of standard deviation in^-1/2. Experts of a mixture
are no projections and have none.
"""

import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

ADAPTER = 'lora'
# Of parameters: what an adapter does not learn. A value head is learnt whole.
FROZEN = rf'(?!.*/{ADAPTER}/(down|up)$)(?!value_head/(weight|bias)$).*'
_KERNEL = 'kernel'


class Linear(nnx.Linear):
  """A projection, with what its adapter adds where it was given one."""

  adapter: Any = None

  def __call__(self, inputs, out_sharding=None):
    made = super().__call__(inputs, out_sharding)
    if self.adapter is None:
      return made
    down, up, scale = (self.adapter[k][...] for k in ('down', 'up', 'scale'))
    inputs, down, up = (x.astype(made.dtype) for x in (inputs, down, up))
    return made + (inputs @ down @ up) * scale.astype(made.dtype)


def add(
  params: Any, key: jax.Array, *, rank: int, alpha: float, targets: str
) -> Any:
  """The params with a new adapter beside each projection that is named.

  Args:
    params: a nested dict, with none.
    key: of all their randomness.
    rank: of each.
    alpha: rank times the scale.
    targets: a regular expression of whole paths, such as
      'layers/3/attention/query'.

  Raises:
    ValueError: a rank below 1 or as large as a matrix, an alpha that is not
      positive, or targets that name no projection.
  """
  if rank < 1 or not alpha > 0:
    raise ValueError(
      f'lora: rank={rank}, alpha={alpha}; give a rank of 1 or more and an alpha'
      ' above 0.'
    )
  kernels = dict(_kernels(params))
  named = sorted(path for path in kernels if re.fullmatch(targets, path))
  if not named:
    raise ValueError(
      f'lora: targets {targets!r} names no projection; match from start to end'
      f' some of {", ".join(sorted(kernels)[:3])}, ...'
    )
  keys = dict(zip(named, jax.random.split(key, len(named))))
  made = {
    path: _fresh(path, kernels[path], keys[path], rank, alpha) for path in named
  }
  return _with(params, made)


def merged(params: Any) -> Any:
  """The params of the same function without adapters: W + scale down up.

  Those without any are given back as they are.
  """
  if not isinstance(params, dict):
    return params
  if ADAPTER not in params:
    return {name: merged(x) for name, x in params.items()}
  rest = {name: x for name, x in params.items() if name != ADAPTER}
  return {**rest, _KERNEL: _sum(rest[_KERNEL], params[ADAPTER])}


def apart(params: Any) -> tuple[Any, dict[str, Any]]:
  """The params without adapters, and those by the path of their projection."""
  found: dict[str, Any] = {}

  def without(node, path):
    if not isinstance(node, dict):
      return node
    if ADAPTER in node:
      found[path] = node[ADAPTER]
    return {
      name: without(x, f'{path}/{name}'.lstrip('/'))
      for name, x in node.items()
      if name != ADAPTER
    }

  return without(params, ''), found


def attach(module: nnx.Module, adapters: dict[str, Any]) -> None:
  """Gives the projections of a bound module their adapters, by their paths.

  Raises:
    ValueError: a path that is no projection, or an adapter that does not fit.
  """
  for path, adapter in adapters.items():
    linear: Any = module
    for name in path.split('/'):
      linear = linear[int(name)] if name.isdigit() else getattr(linear, name)
    if not isinstance(linear, Linear):
      raise ValueError(f'lora: {path} takes no adapter; leave it out.')
    wide, thin = linear.kernel.shape, [adapter[k].shape for k in ('down', 'up')]
    rank = thin[0][-1]
    if thin != [(wide[0], rank), (rank, wide[1])]:
      raise ValueError(
        f'lora: {path} is {wide}, but its adapter {thin}; use the params that'
        ' it was made for.'
      )
    linear.adapter = nnx.Dict({k: nnx.Param(x) for k, x in adapter.items()})


def _fresh(path, kernel, key, rank, alpha) -> dict[str, jax.Array]:
  if rank >= min(kernel.shape):
    raise ValueError(
      f'lora: a rank of {rank} saves nothing at {path}, which is'
      f' {kernel.shape}; choose a smaller one, or other targets.'
    )
  wide, out = kernel.shape
  down = jax.random.normal(key, (wide, rank), kernel.dtype) * wide**-0.5
  up = jnp.zeros((rank, out), kernel.dtype)
  return {'down': down, 'up': up, 'scale': jnp.float32(alpha / rank)}


def _kernels(node: Any, path: str = '') -> Iterator[tuple[str, jax.Array]]:
  """The matrix of each projection by its path."""
  for name, child in node.items():
    if not isinstance(child, dict):
      continue
    if _KERNEL in child and name != 'router':
      yield f'{path}{name}', child[_KERNEL]
    yield from _kernels(child, f'{path}{name}/')


def _with(node: Any, made: dict[str, Any], path: str = '') -> Any:
  if not isinstance(node, dict):
    return node
  children = {
    name: _with(x, made, f'{path}/{name}'.lstrip('/'))
    for name, x in node.items()
  }
  return {**children, ADAPTER: made[path]} if path in made else children


@jax.jit
def _sum(kernel: jax.Array, adapter: dict[str, jax.Array]) -> jax.Array:
  exact = jax.lax.Precision.HIGHEST
  down, up = (adapter[k].astype(jnp.float32) for k in ('down', 'up'))
  change = jnp.matmul(down, up, precision=exact) * adapter['scale']
  return (kernel + change).astype(kernel.dtype)
