"""How far a distribution over the vocabulary is from a teacher's.

Only `heads` calls this, for a few tokens at a time: arrays are [n, V]. Where
the models have room for different numbers of ids, they are compared on those
that both know. Nothing here differentiates the teacher.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from arl.models import functional, layout

DIVERGENCES = frozenset({'reverse_kl', 'forward_kl', 'jsd'})
_LOWEST = -1e4


class Teacher(NamedTuple):
  """A model to compare with.

  Attributes:
    model: gives the logits.
    params: of the model.
    hidden: [B, T, D], what `model.apply` returned for the tokens.
  """

  model: functional.Model
  params: functional.Params
  hidden: jax.Array


def logits(teacher: Teacher, states: jax.Array) -> jax.Array:
  """The teacher's [n, V] after states [n, D], without gradient."""
  made = teacher.model.logits(teacher.params, states)
  return jax.lax.stop_gradient(made)


def log_probs(logs: jax.Array, ids: jax.Array) -> jax.Array:
  """Log-probs [n, K] of ids [n, K]; -1e4 for one that the model lacks."""
  known = (ids >= 0) & (ids < logs.shape[-1])
  found = layout.pick(logs, jnp.where(known, ids, 0))
  return jnp.where(known, jnp.maximum(found, _LOWEST), _LOWEST)


def compare(
  logs: jax.Array, scores: jax.Array, want: frozenset[str]
) -> dict[str, jax.Array]:
  """Divergences [...] of log-probs [..., V] and a teacher's scores [..., V].

  'reverse_kl' is KL(policy || teacher), 'forward_kl' KL(teacher || policy), and
  'jsd' the mean of both KL to the even mixture.
  """
  size = min(logs.shape[-1], scores.shape[-1])
  own, theirs = (
    jnp.maximum(jax.nn.log_softmax(x[..., :size]), _LOWEST)
    for x in (logs, scores)
  )
  made = {}
  if 'reverse_kl' in want:
    made['reverse_kl'] = _kl(own, theirs)
  if 'forward_kl' in want:
    made['forward_kl'] = _kl(theirs, own)
  if 'jsd' in want:
    even = jnp.logaddexp(own, theirs) - math.log(2)
    made['jsd'] = (_kl(own, even) + _kl(theirs, even)) / 2
  return made


def _kl(a, b):
  return jnp.sum(jnp.exp(a) * (a - b), axis=-1)
