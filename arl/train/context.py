"""Rows whose tokens are split over devices, for sequences too long for one.

The forward pass runs on each device with its part of the tokens of every row:
embedding, MLPs, head and what they keep for the backward pass are that part's
alone. Attention gathers the keys and values of the row, see
`arl.models.attention.across`, and the head, which reads the state before each
token, is given the last one of the part before. Columns are small; they enter
and leave split by rows, as all of a method's arithmetic has them.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jax.sharding import PartitionSpec

from arl.models import layout as layout_lib
from arl.train import forward as forward_lib
from arl.train import prefixes, sharding


def split(
  forward: forward_lib.Forward, layout: layout_lib.Layout
) -> forward_lib.Forward:
  """The forward pass over the context axis of a mesh, if there is one.

  Args:
    forward: of models that are `functional.placed` there.
    layout: of the mesh.
  """
  if not layout.splits_tokens:
    return forward
  part = PartitionSpec(None, layout.tokens)

  def whole(params, columns, want, **taught):
    length = columns['mask'].shape[1]
    of_tokens = lambda x: np.ndim(x) > 1 and x.shape[1] == length
    specs = jax.tree.map(
      lambda x: part if of_tokens(x) else PartitionSpec(), columns
    )

    def of_part(params, columns, taught):
      columns = {**columns, 'before': before(layout.tokens)}
      return forward(params, columns, want, **taught)

    made = layout_lib.over_tokens(
      layout, of_part, (PartitionSpec(), specs, PartitionSpec()), part
    )(params, columns, taught)
    return sharding.keep_rows(made, layout.mesh)

  return whole


def before(axis: str) -> Callable[[jax.Array], jax.Array]:
  """[B, N, ...] -> the same one token later, across the parts of a row.

  What stands before the first token of a row means nothing.
  """

  def shift(x: jax.Array) -> jax.Array:
    parts = jax.lax.axis_size(axis)
    to_next = [(i, (i + 1) % parts) for i in range(parts)]
    last = jax.lax.ppermute(x[:, -1:], axis, to_next)
    return jnp.concatenate([last, x[:, :-1]], 1)

  return shift


def check(config: ml_collections.ConfigDict) -> None:
  """Refuses rows that cannot be split.

  Raises:
    ValueError: their length, or what is read of them, does not allow it.
  """
  parts, length = config.mesh.context, config.rollout.context
  if parts > 1 and length % parts:
    raise ValueError(
      f'config.mesh.context is {parts}, which does not divide the {length}'
      ' tokens of a row; make config.rollout.context a multiple of it.'
    )
  if parts > 1 and config.updates.prefixes == prefixes.SHARED:
    raise ValueError(
      f'config.mesh.context is {parts}, but the tree that'
      f' config.updates.prefixes = {prefixes.SHARED!r} makes of the sequences'
      f' is no row of tokens; set that to {prefixes.OWN!r}, or the axis to 1.'
    )
