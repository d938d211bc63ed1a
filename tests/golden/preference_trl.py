"""Reads the numbers of TRL 1.16 on pairs, and computes ours.

A file holds inputs `in/NAME`, of shape [2, pairs, T] with the preferred answers
first, and results `out/KIND/NAME`; the json beside it gives the settings of a
NAME. `preference_rows` has the recipes.
"""

import json
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import preference_rows

from arl import levels
from arl.methods import compose

KINDS = ('losses', 'grad_chosen', 'grad_rejected')


class Golden(NamedTuple):
  """A file: its inputs as columns, its results by KIND/NAME, its settings."""

  columns: dict
  results: dict
  settings: dict


def is_one(path: pathlib.Path) -> bool:
  """Whether a file holds results of pairs."""
  with np.load(path) as file:
    return any(name.startswith('out/losses/') for name in file.files)


def load(path: pathlib.Path, settings: pathlib.Path) -> Golden:
  with np.load(path) as file:
    arrays = dict(file)
  results = {
    name.removeprefix('out/'): array
    for name, array in arrays.items()
    if name.startswith('out/')
  }
  mask = np.concatenate(arrays['in/mask']) > 0
  pairs = len(mask) // 2
  ends = mask & (np.cumsum(mask[:, ::-1], axis=1)[:, ::-1] == 1)
  preferred = np.arange(2 * pairs)[:, None] < pairs
  columns: dict[str, Any] = {
    'mask': jnp.asarray(mask),
    'rewards': jnp.asarray(np.where(ends & preferred, 1.0, 0.0)),
    'seq': _rows(np.arange(2 * pairs)),
    'group': _rows(np.tile(np.arange(pairs), 2)),
  }
  for ours, theirs in (('logp', 'logp'), ('ref_logp', 'logp_ref')):
    joined = np.concatenate(arrays['in/' + theirs])
    columns[ours] = jnp.asarray(np.where(mask, joined, np.nan))
  return Golden(columns, results, json.loads(settings.read_text()))


def _rows(ids: np.ndarray) -> levels.Level:
  """A level that is constant in each row."""
  return levels.level(ids[:, None], int(ids.max()) + 1)


def _run(golden: Golden, name: str) -> tuple[np.ndarray, np.ndarray]:
  """The loss of each pair and the gradient of their sum, [2 * pairs, T]."""
  part = preference_rows.PAIRS[name](golden.settings[name])
  (term,), method = compose.terms_of(part), compose.method(part)
  credits = method.credit(golden.columns)
  weights = method.weigh(golden.columns, credits)
  pairs = len(golden.columns['mask']) // 2

  def losses(logp):
    columns = compose.visible({**golden.columns, 'logp': logp})
    made = compose.run(term.loss, {**columns, **credits['policy']})
    return jnp.sum(made['loss'] * weights['policy'], axis=1)

  @jax.jit
  @jax.grad
  def gradient(logp):
    columns = {**golden.columns, 'logp': logp}
    return pairs * method.loss(columns, credits, weights)[0]

  of_rows = pairs * losses(golden.columns['logp'])
  both = np.asarray(of_rows).reshape(2, pairs).sum(0)
  return both, np.asarray(gradient(golden.columns['logp']))


def knows(key: str) -> bool:
  kind, _, name = key.partition('/')
  return kind in KINDS and name in preference_rows.PAIRS


def pairs(golden: Golden, key: str) -> Iterator[tuple[Any, Any]]:
  """(ours, theirs) of a key; every token of a sequence has one gradient."""
  kind, name = key.split('/', 1)
  losses, gradient = _run(golden, name)
  if kind == 'losses':
    yield losses, golden.results[key]
    return
  side = int(kind == 'grad_rejected')
  mask = np.asarray(golden.columns['mask']).reshape(2, len(losses), -1)[side]
  each = gradient.reshape(2, len(losses), -1)[side]
  theirs = golden.results[key]
  length = np.sum(mask, axis=1) if name in preference_rows.AVERAGED else 1
  for token in range(each.shape[1]):
    on = mask[:, token]
    yield (each[:, token] * length)[on], theirs[on]
