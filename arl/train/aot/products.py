"""FLOPs of products of matrices in a compiled program."""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from arl.train.aot import hlo


def flops(one: hlo.Instruction, look: Mapping[str, hlo.Instruction]) -> float:
  """Of a dot, or of what a TPU makes of one."""
  if one.code not in ('dot', 'convolution'):
    return 0.0
  left, right = (look[o].made[0].sides for o in one.operands[-2:])
  made = math.prod(one.made[0].sides)
  if one.code == 'dot':
    found = re.search(r'lhs_contracting_dims=\{([\d,]*)\}', one.attributes)
    dims = [int(d) for d in re.findall(r'\d+', found[1])] if found else []
    return 2.0 * made * math.prod(left[d] for d in dims)
  return 2.0 * _convolved(one, left, right)


def _convolved(
  one: hlo.Instruction, left: Sequence[int], right: Sequence[int]
) -> float:
  """Multiplications of a convolution that meet no padding and no gap."""
  labels = re.search(r'dim_labels=(\w+)_(\w+)->(\w+)', one.attributes)
  if not labels:
    return 0.0
  of_left, of_right, of_made = labels.groups()
  made = one.made[0].sides
  window = re.search(r'window=\{([^}]*)\}', one.attributes)
  told = dict(re.findall(r'(\w+)=(\S+)', window[1])) if window else {}
  work = made[of_made.index('b')] * made[of_made.index('f')]
  work *= right[of_right.index('i')]
  for d in range(len(made) - 2):
    place = str(d)
    work *= _met(
      left[of_left.index(place)],
      right[of_right.index(place)],
      made[of_made.index(place)],
      {key: value.split('x')[d] for key, value in told.items()},
    )
  return float(work)


def _met(left: int, right: int, made: int, told: Mapping[str, str]) -> int:
  """Pairs of places along a dimension where the window meets a number."""
  low = int(told.get('pad', '0_0').split('_')[0])
  stride, apart = int(told.get('stride', 1)), int(told.get('lhs_dilate', 1))
  spread = int(told.get('rhs_dilate', 1))
  at = np.arange(made)[:, None] * stride - low
  at = at + np.arange(right)[None, :] * spread
  inside = (at >= 0) & (at <= (left - 1) * apart) & (at % apart == 0)
  return int(inside.sum())
