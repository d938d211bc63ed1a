"""A critic beside the policy: a value head on its trunk, or on one of its own.

A trunk of its own lies in the params under the value head: what the critic
learns does not move the policy, and what the policy learns does not move the
critic. It has the policy's sizes, and begins as a copy of it.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from arl.models import functional, heads

TRUNK = 'trunk'


def with_trunk(params: functional.Params) -> functional.Params:
  """The params, their value head on a copy of the policy's trunk.

  Args:
    params: of a model, with a value head on the policy's trunk.
  """
  copied = jax.tree.map(jnp.copy, policy(params))
  head = {**params[functional.VALUE_HEAD], TRUNK: copied}
  return {**params, functional.VALUE_HEAD: head}


def policy(params: functional.Params) -> functional.Params:
  """The parameters of the language model alone."""
  return {k: v for k, v in params.items() if k != functional.VALUE_HEAD}


def alone(params: functional.Params) -> functional.Params:
  """The critic as a model with a value head, whichever trunk it reads."""
  head = dict(params[functional.VALUE_HEAD])
  trunk = head.pop(TRUNK, policy(params))
  return {**trunk, functional.VALUE_HEAD: head}


def columns(
  model: functional.Model,
  params: functional.Params,
  seen: tuple[jax.Array, ...],
  want: frozenset[str],
  where: jax.Array,
  paths: jax.Array | None = None,
  before: jax.Array | Callable[[jax.Array], jax.Array] | None = None,
) -> dict[str, Any]:
  """Columns of values from a critic with a trunk of its own.

  Args:
    model: of the trunk.
    params: of the policy.
    seen: tokens, positions and segments.
    want: columns; of others than `heads.VALUES` nothing is made.
    where: bool [B, T], the positions that are read; the shape of the result.
    paths: of tokens that form a tree, see `functional.Model.apply`.
    before: see `heads.columns`.

  Returns:
    Nothing where the critic reads the policy's trunk.
  """
  head = params.get(functional.VALUE_HEAD, {})
  if TRUNK not in head or not want & heads.VALUES:
    return {}
  critic = alone(params)
  hidden = model.apply(critic, *seen, paths=paths)
  want &= heads.VALUES
  hidden = hidden.reshape(*where.shape, -1)
  tokens = seen[0].reshape(where.shape)
  return heads.columns(
    model, critic, hidden, tokens, want, where=where, before=before
  )
