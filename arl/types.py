"""The types that cross layers on the device side."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax

from arl import levels

Columns = Mapping[str, Any]  # column name -> [B, T] array, scalar or Level
Kernel = Callable[..., jax.Array]  # reads columns by name, gives a column
Steps = tuple[tuple[str, Kernel], ...]  # (name of the result, kernel), in order


class Batch(NamedTuple):
  """What a rollout observed. The table in `arl.columns` says what each is.

  `extras` holds by name what only some methods read.
  """

  tokens: jax.Array
  positions: jax.Array
  segments: jax.Array
  mask: jax.Array
  rewards: jax.Array
  rollout_logp: jax.Array
  seq: levels.Level
  group: levels.Level
  turn: levels.Level
  extras: Mapping[str, jax.Array] = {}


def columns(batch: Batch) -> dict[str, Any]:
  """A batch as columns by name."""
  made = batch._asdict()
  extras = made.pop('extras')
  return {**made, **extras}


class Method(NamedTuple):
  """A training method, in the three nested scales of time.

  Attributes:
    credit: (columns) -> credits. Once a rollout batch; no gradient; sees whole
      groups. Credits are columns by term name, then by column name.
    weigh: (columns, credits) -> weights. Once an update; no gradient; a [B, T]
      column a term.
    loss: (columns, credits, weights) -> (scalar, metrics). Once a microbatch. A
      sum over tokens, so the microbatches of an update add up to the whole.
    needs: the columns besides the observed ones and `logp` that it reads.
    whole: the levels that a microbatch must not cut.
  """

  credit: Callable[[Columns], dict]
  weigh: Callable[[Columns, dict], dict]
  loss: Callable[[Columns, dict, dict], tuple[jax.Array, dict]]
  needs: frozenset[str]
  whole: frozenset[str]
