"""Which experts the trainer sends tokens through: its own, or the sampler's.

Two programs with the same weights may choose differently where two experts are
nearly as likely, and the weights move between sampling and training; the ratio
of such a token has nothing to do with its advantage. With
config.updates.routing = 'rollout' the scoring pass and the updates go through
the experts that the engine reported (rollout routing replay, 2510.11370), with
the trainer's own weights of them, which the gradient moves. A token whose
experts nobody reported, such as the last of a sequence, chooses for itself.

A reference or a teacher does not replay: it is asked what it would say, and its
router belongs to it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from arl import episode
from arl.models import sizes

OWN, ROLLOUT = 'own', 'rollout'
COLUMN = 'routed_experts'


class Replay(NamedTuple):
  """What the experts of a token look like.

  Attributes:
    layers: of the decoder, with experts or without.
    chosen: experts of a token.
    experts: of a layer.
    dense: the layers without experts, for which nothing is replayed.
  """

  layers: int
  chosen: int
  experts: int
  dense: tuple[int, ...] = ()


def replay(kind: str, size: sizes.Sizes) -> Replay | None:
  """What is replayed in a run; None where the trainer routes by itself.

  Args:
    kind: config.updates.routing.
    size: of the policy.

  Raises:
    ValueError: an unknown kind, or a policy without experts to replay.
  """
  if kind not in (OWN, ROLLOUT):
    raise ValueError(
      f'config.updates.routing is {kind!r}; set it to {OWN!r}, or to'
      f' {ROLLOUT!r} to replay the experts that the sampler chose.'
    )
  if kind == OWN:
    return None
  if size.mixture is None:
    raise ValueError(
      f'config.updates.routing is {ROLLOUT!r}, but the policy, a {size.family},'
      f' has no experts to replay; set it to {OWN!r}.'
    )
  mixture = size.mixture
  return Replay(size.layers, mixture.chosen, mixture.experts, mixture.dense)


def check(episodes: Sequence[episode.Episode], wanted: Replay) -> None:
  """Refuses experts that the policy does not have.

  Raises:
    ValueError: none were reported, or they are of other layers, of another
      number, beyond the last, or one of them is named twice.
  """
  for one in episodes:
    who = f'routing: the episode of task {one.task.id!r}'
    if COLUMN not in one.extras:
      raise ValueError(
        f'{who} does not say which experts its tokens went through; take an'
        ' engine that reports them (SGLang with --enable-return-routed-experts)'
        ' and a strategy that samples, or set config.updates.routing to'
        f' {OWN!r}.'
      )
    ids = one.extras[COLUMN]
    shape = len(one.tokens), wanted.layers, wanted.chosen
    if np.shape(ids) != shape or not np.issubdtype(ids.dtype, np.integer):
      raise ValueError(
        f'{who} has experts {ids.dtype} {np.shape(ids)}, but the policy wants'
        f' integers {shape}; sample from a model of the same sizes.'
      )
    if len(ids) and not -1 <= ids.min() <= ids.max() < wanted.experts:
      raise ValueError(
        f'{who} has experts from {ids.min()} to {ids.max()}, but a layer of the'
        f' policy has 0 to {wanted.experts - 1}, and -1 stands for not known;'
        ' sample from a model of the same sizes.'
      )
    ids = np.sort(np.delete(ids, wanted.dense, axis=1), -1)
    if np.any((ids[..., 1:] == ids[..., :-1]) & (ids[..., 1:] >= 0)):
      raise ValueError(
        f'{who} has tokens that went through one expert twice in a layer; its'
        ' engine did not record them all: look at its version and its cache.'
      )


def known(experts: jax.Array) -> jax.Array:
  """bool [B, T]: whether the state before a token was replayed in all layers.

  Args:
    experts: the column, int [B, T, L, K].
  """
  return _before(jnp.all(experts >= 0, axis=(2, 3)))


def differs(
  experts: jax.Array,
  own: jax.Array,
  before: jax.Array | Callable[[jax.Array], jax.Array] | None = None,
) -> jax.Array:
  """bool [B, T]: whether the state before a token went elsewhere than it would.

  In some layer the router would have chosen another set of experts than the one
  replayed; false where nothing was.

  Args:
    experts: the column, int [B, T, L, K].
    own: what the routers chose, the same.
    before: see `heads.columns`.
  """
  given = jnp.sort(experts, -1)
  other = jnp.any(given != jnp.sort(own, -1), -1)
  elsewhere = jnp.any(other & jnp.all(given >= 0, -1), -1)
  if before is None:
    return _before(elsewhere)
  if callable(before):
    return before(elsewhere)
  return elsewhere.reshape(-1)[before]


def _before(x: jax.Array) -> jax.Array:
  """What is said of the token before, in a row; false for the first."""
  return jnp.pad(x[:, :-1], ((0, 0), (1, 0)))
