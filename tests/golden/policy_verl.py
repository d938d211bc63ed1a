"""Reads the numbers of verl 0.9.1, and computes ours.

A file holds inputs `in/NAME` and results `out/KIND/NAME`; the json beside it
gives the settings of a NAME. `policy_rows` has the recipes.
"""

import functools
import json
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import policy_rows

from arl import levels
from arl.kernels import aggregations
from arl.methods import compose

# Our column <- the file's `in/NAME`.
COLUMNS = {
  'logp': 'logp',
  'old_logp': 'logp_old',
  'rollout_logp': 'logp_rollout',
  'ref_logp': 'logp_ref',
  'rewards': 'token_reward',
  'value': 'values',
  'old_value': 'values_old',
  'returns': 'returns',
  'advantage': 'adv',
}


class Golden(NamedTuple):
  """A file: its inputs as columns, its results by KIND/NAME, its settings."""

  columns: dict
  results: dict
  settings: dict


def load(path: pathlib.Path, settings: pathlib.Path) -> Golden:
  with np.load(path) as file:
    arrays = dict(file)
  results = {
    name.removeprefix('out/'): array
    for name, array in arrays.items()
    if name.startswith('out/')
  }
  columns: dict[str, Any] = {
    ours: jnp.asarray(arrays['in/' + theirs])
    for ours, theirs in COLUMNS.items()
  }
  mask = arrays['in/mask'] > 0
  columns['mask'] = jnp.asarray(mask)
  columns['entropy'] = _entropy(jnp.asarray(arrays['in/logits']))
  greedy = arrays['in/greedy_reward'][:, None]
  columns['baseline'] = jnp.asarray(np.broadcast_to(greedy, mask.shape))
  for name, ids in (
    ('seq', np.arange(len(mask))),
    ('group', arrays['in/group']),
  ):
    columns[name] = levels.level(ids[:, None], int(ids.max()) + 1)
  return Golden(columns, results, json.loads(settings.read_text()))


def _entropy(logits):
  logp = jax.nn.log_softmax(logits)
  return -jnp.sum(jnp.exp(logp) * logp, axis=-1)


def _aggregate(settings, width):
  """verl's aggregations: its norm is by the width of the mask, over rows."""
  return {
    'token-mean': aggregations.token_mean,
    'seq-mean-token-mean': aggregations.sequence_mean,
    'seq-mean-token-sum': aggregations.sequence_sum,
    'seq-mean-token-sum-norm': functools.partial(
      aggregations.constant, length=width
    ),
  }[settings['agg']]


def _loss(golden: Golden, name: str, row) -> tuple[jax.Array, jax.Array]:
  """The loss of a row and its gradient with respect to logp."""
  settings = golden.settings.get(name, {})
  part = row(settings)
  if isinstance(part, compose.Objective):
    part = part._replace(terms=())
    if name not in policy_rows.OWN_MEAN:
      width = golden.columns['mask'].shape[1]
      part = part._replace(aggregate=_aggregate(settings, width))
  else:
    part = part._replace(monitors=())  # of credit, which is none here
  method = compose.method(part)
  credits: dict[str, dict] = {term.name: {} for term in compose.terms_of(part)}
  weights = method.weigh(golden.columns, credits)

  def loss(logp):
    columns = {**golden.columns, 'logp': logp}
    return method.loss(columns, credits, weights)[0]

  return jax.jit(jax.value_and_grad(loss))(golden.columns['logp'])


def knows(key: str) -> bool:
  kind, _, name = key.partition('/')
  return name in policy_rows.KINDS.get(kind, {})


def pairs(golden: Golden, key: str) -> Iterator[tuple[Any, Any]]:
  """(ours, theirs) of a key, a pair a recipe; of columns, on the mask."""
  kind, name = key.split('/', 1)
  theirs, mask = golden.results[key], np.asarray(golden.columns['mask'])
  for row in policy_rows.KINDS[kind][name]:
    if kind in ('loss', 'grad'):
      yield np.asarray(_loss(golden, name, row)[kind == 'grad']), theirs
    else:
      ours = np.asarray(row(golden))
      on = mask if ours.shape == theirs.shape == mask.shape else ...
      yield ours[on], theirs[on]
