"""Reads the numbers of TRL 1.16 on generalized distillation, computes ours.

A file of `preference_trl` also holds logits `in/student_logits` and
`in/teacher_logits`, [B, T, V], a mask `in/distill_mask`, and of each beta the
loss `out/loss/gjsd_betaX` and its gradient in the student's logits,
`out/grad/gjsd_betaX`. Ours sees all V tokens as candidates, likeliest first
under the teacher.
"""

import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from arl import levels
from arl.methods import compose, matching

_KINDS, _NAME = ('loss', 'grad'), 'gjsd_beta'


class Golden(NamedTuple):
  """A file: logits of both, [B, T, V], the mask, and results by KIND/NAME."""

  student: jax.Array
  teacher: jax.Array
  mask: jax.Array
  results: dict


def load(path: pathlib.Path, settings: pathlib.Path) -> Golden:
  del settings  # a beta is in the name of its result
  with np.load(path) as file:
    arrays = dict(file)
  results = {
    name.removeprefix('out/'): array
    for name, array in arrays.items()
    if name.startswith('out/')
  }
  return Golden(
    jnp.asarray(arrays['in/student_logits']),
    jnp.asarray(arrays['in/teacher_logits']),
    jnp.asarray(arrays['in/distill_mask'] > 0),
    results,
  )


def knows(key: str) -> bool:
  kind, _, name = key.partition('/')
  return kind in _KINDS and name.startswith(_NAME)


def pairs(golden: Golden, key: str) -> Iterator[tuple[Any, Any]]:
  """(ours, theirs) of a key."""
  kind, name = key.split('/', 1)
  beta = float(name.removeprefix(_NAME))
  made = jax.jit(jax.value_and_grad(lambda x: _loss(golden, x, beta)))
  loss, gradient = made(golden.student)
  ours = loss if kind == 'loss' else gradient
  yield np.asarray(ours), golden.results[key]


def _loss(golden: Golden, logits: jax.Array, beta: float) -> jax.Array:
  """The loss of `matching.gkd` over a whole vocabulary."""
  rows, _, vocab = logits.shape
  order = jnp.argsort(-golden.teacher, axis=-1)
  likeliest = lambda x: jnp.take_along_axis(
    jax.nn.log_softmax(x, axis=-1), order, axis=-1
  )
  own, theirs = likeliest(logits), likeliest(golden.teacher)
  method = compose.method(matching.gkd(beta=beta, k=vocab))
  columns = {
    'mask': golden.mask,
    'rewards': jnp.zeros(golden.mask.shape),
    'seq': levels.level(np.arange(rows)[:, None], rows),
    'top_logp': own,
    'teacher_top_logp': theirs,
    # Of one token each, for what is watched beside the loss.
    'logp': own[..., 0],
    'teacher_logp': theirs[..., 0],
  }
  credits = method.credit(columns)
  return method.loss(columns, credits, method.weigh(columns, credits))[0]
