"""Which side of a parameter lies along which axis of the mesh: rules.

A rule is a regular expression of the parameter's path and, for each of its
sides, an axis or None. The first rule that is found in the path and has as many
sides decides; it holds for an optimizer's moments as well, whose paths end as
their parameter's does. An axis that does not divide its side is left out, so
that side is whole on all of that axis. What no rule speaks of is split over
fsdp along its widest side that fsdp divides, if it has two sides or more.
"""

import re
from collections.abc import Mapping, Sequence

import jax
from jax.sharding import PartitionSpec

Rules = Sequence[tuple[str, Sequence[str | None]]]

# Projections into heads or hidden units are split by those over tensor, and the
# way back by the same, so that one sum over tensor ends each block (Megatron,
# arXiv:1909.08053). The other side is fsdp's, gathered before use.
DECODER: Rules = (
  (r"'(query|key|value|gate|up)'\]\['kernel'\]$", ('fsdp', 'tensor')),
  (r"'(query|key|value)'\]\['bias'\]$", ('tensor',)),
  (r"'(out|down)'\]\['kernel'\]$", ('tensor', 'fsdp')),
  (r"'experts'\]\['(gate|up)'\]$", ('expert', 'fsdp', 'tensor')),
  (r"'experts'\]\['down'\]$", ('expert', 'tensor', 'fsdp')),
  (r"'(embed|head)'\]\['embedding'\]$", ('tensor', 'fsdp')),
)


def decoder() -> Rules:
  """The rules of arl's decoders, those of experts included."""
  return DECODER


def spec(
  path: jax.tree_util.KeyPath,
  shape: Sequence[int],
  axes: Mapping[str, int],
  rules: Rules = DECODER,
) -> PartitionSpec:
  """Where an array lies.

  Args:
    path: of the array in its tree.
    shape: of it.
    axes: of the mesh, by name: how many devices each has.
    rules: of the parameters.
  """
  name = jax.tree_util.keystr(path)
  for pattern, sides in rules:
    if len(sides) == len(shape) and re.search(pattern, name):
      return _fitting(shape, sides, axes)
  return _widest(shape, axes)


def check(rules: Rules, axes: Sequence[str]) -> None:
  """Refuses rules that cannot be followed.

  Raises:
    ValueError: a pattern that is no regular expression, an axis that there is
      not, or one that a rule names twice.
  """
  for pattern, sides in rules:
    try:
      re.compile(pattern)
    except re.error as error:
      raise ValueError(
        f'config.mesh.rules: {pattern!r} is no regular expression ({error}).'
      ) from error
    named = [side for side in sides if side is not None]
    if set(named) - set(axes) or len(set(named)) < len(named):
      raise ValueError(
        f'config.mesh.rules: {pattern!r} has the sides {tuple(sides)}; give'
        f' each an axis of {", ".join(axes)}, none twice, or None.'
      )


def _fitting(shape, sides, axes) -> PartitionSpec:
  fits = lambda n, side: side and axes[side] > 1 and n % axes[side] == 0
  kept = [side if fits(n, side) else None for n, side in zip(shape, sides)]
  while kept and kept[-1] is None:
    kept.pop()
  return PartitionSpec(*kept)


def _widest(shape, axes) -> PartitionSpec:
  fsdp = axes['fsdp']
  divisible = [d for d in range(len(shape)) if shape[d] % fsdp == 0]
  if fsdp == 1 or not divisible or len(shape) < 2:
    return PartitionSpec()
  widest = max(divisible, key=lambda d: shape[d])
  return PartitionSpec(*(None,) * widest, 'fsdp')
