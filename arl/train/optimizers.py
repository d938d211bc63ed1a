"""Optimizers: optax chains by name, and which parameters they move."""

import operator
import re
from typing import Any

import jax
import optax

from arl.models import functional


def adamw(
  *,
  lr: float,
  warmup: int,
  decay: int,
  b1: float,
  b2: float,
  weight_decay: float,
  max_norm: float,
) -> optax.GradientTransformation:
  """AdamW on the gradient of the whole update, clipped by its global norm.

  Args:
    lr: the peak learning rate.
    warmup: updates of linear warm-up from 0.
    decay: updates from the start to the end of a cosine decay to 0; 0 keeps
      the peak for ever.
    b1: decay of the first moment.
    b2: decay of the second moment.
    weight_decay: decoupled, times the learning rate.
    max_norm: the gradient is scaled down to this norm.
  """
  if decay:
    schedule = optax.warmup_cosine_decay_schedule(0.0, lr, warmup, decay)
  else:
    schedule = optax.linear_schedule(0.0 if warmup else lr, lr, max(warmup, 1))
  return optax.chain(
    optax.clip_by_global_norm(max_norm),
    optax.adamw(schedule, b1=b1, b2=b2, weight_decay=weight_decay),
  )


def matching(params: functional.Params, pattern: str) -> Any:
  """Which parameters a regular expression names, as a tree of bool.

  Args:
    params: of a model.
    pattern: matched against whole paths such as 'layers/3/mlp/up/kernel'.

  Raises:
    ValueError: the pattern is none, or it matches no parameter or all.
  """
  try:
    compiled = re.compile(pattern)
  except re.error as error:
    raise ValueError(
      f'frozen: {pattern!r} is no regular expression: {error}.'
    ) from error
  paths = jax.tree_util.tree_map_with_path(
    lambda path, _: jax.tree_util.keystr(path, simple=True, separator='/'),
    params,
  )
  found = jax.tree.map(lambda path: bool(compiled.fullmatch(path)), paths)
  if len(set(jax.tree.leaves(found))) != 2:
    which = 'every' if all(jax.tree.leaves(found)) else 'no'
    some = ', '.join(jax.tree.leaves(paths)[:3])
    raise ValueError(
      f'frozen: {pattern!r} matches {which} parameter; match some but not all,'
      f' from start to end, of {some}, ...'
    )
  return found


def except_for(
  tx: optax.GradientTransformation, frozen: str
) -> optax.GradientTransformation:
  """The optimizer, without updates or state for parameters that match."""

  def moved(params):
    return jax.tree.map(operator.not_, matching(params, frozen))

  return optax.masked(tx, moved)
