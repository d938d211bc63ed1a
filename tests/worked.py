"""Worked numbers shared by tests: four sequences of 3, 2, 1 and 3 tokens.

Values are of a row each, without the padding; `column` pads them to [4, 3].
"""

import jax.numpy as jnp
import numpy as np

from arl import levels

LENGTHS = (3, 2, 1, 3)
OLD_LOGP = ((-1.0, -0.5, -2.0), (-0.7, -1.2), (-1.3,), (-1.5, -0.9, -0.4))
LOG_RATIO = ((0.10, -0.30, 0.25), (0.40, -0.10), (-0.20,), (0.05, 0.30, -0.50))
OLD_TO_REF = ((0.1, -0.2, 0.0), (-0.3, 0.2), (-0.1,), (0.0, 0.1, -0.2))
OLD_TO_ROLLOUT = ((0.0, -0.1, 0.2), (0.9, 0.0), (-1.0,), (-0.02, 0.05, 0.0))
ENTROPY = ((0.8, 0.05, 1.6), (0.3, 0.9), (1.1,), (1.2, 0.6, 0.2))
REWARDS = (1.0, 0.2, 0.0, 0.6)
# Group-normalized rewards, all four sequences being one group.
ADVANTAGE = (1.240213, -0.563733, -1.014720, 0.338240)


def _combine(operator, a, b):
  return tuple(
    tuple(operator(x, y) for x, y in zip(left, right))
    for left, right in zip(a, b)
  )


LOGP = _combine(lambda x, y: x + y, OLD_LOGP, LOG_RATIO)
REF_LOGP = _combine(lambda x, y: x - y, OLD_LOGP, OLD_TO_REF)
ROLLOUT_LOGP = _combine(lambda x, y: x - y, OLD_LOGP, OLD_TO_ROLLOUT)


def column(rows, fill=0.0):
  """Rows of different lengths as floats [rows, longest], padded by `fill`."""
  width = max(map(len, rows))
  padded = [[*row, *[fill] * (width - len(row))] for row in rows]
  return jnp.asarray(padded, float)


def mask(lengths=LENGTHS):
  """True on the first tokens of each row."""
  steps = np.arange(max(lengths))
  return jnp.asarray(steps[None] < np.asarray(lengths)[:, None])


def per_sequence(values, fill=0.0, lengths=LENGTHS):
  """A number a sequence, on each of its tokens."""
  return column([[v] * n for v, n in zip(values, lengths)], fill)


def at_end(values, fill=0.0, lengths=LENGTHS):
  """A number a sequence, on its last token."""
  rows = [[0.0] * (n - 1) + [v] for v, n in zip(values, lengths)]
  return column(rows, fill)


def level(ids, width, num=0):
  """A level that is constant in each row; of as many segments as it needs."""
  ids = np.broadcast_to(np.asarray(ids, np.int32)[:, None], (len(ids), width))
  return levels.Level(jnp.asarray(ids), num or int(ids.max()) + 1)


def sequences(rows=4, width=3):
  """A sequence a row."""
  return level(range(rows), width)


def one_group(rows=4, width=3):
  """All rows in one group."""
  return level([0] * rows, width)


def batch(fill=jnp.nan):
  """The worked sequences as columns, `fill` in the padding; one group."""
  return {
    'mask': mask(),
    'rewards': at_end(REWARDS, fill),
    'logp': column(LOGP, fill),
    'old_logp': column(OLD_LOGP, fill),
    'rollout_logp': column(OLD_LOGP, fill),
    'ref_logp': column(REF_LOGP, fill),
    'entropy': column(ENTROPY, fill),
    'value': jnp.where(mask(), 0.0, fill),
    'old_value': jnp.where(mask(), 0.0, fill),
    'seq': sequences(),
    'group': one_group(),
    'turn': sequences(),
  }
