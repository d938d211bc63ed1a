"""From parameters and columns to the columns of the policy."""

from collections.abc import Callable

from arl import types
from arl.models import functional, heads

Forward = Callable[[functional.Params, types.Columns, frozenset], dict]


def make(model: functional.Model, *, temperature: float, chunk: int) -> Forward:
  """The forward pass as (params, columns, want) -> columns.

  Args:
    model: the policy, or a model of its shape.
    temperature: that of the rollouts: a token's probability is the one it was
      sampled with.
    chunk: tokens whose logits are held at a time; 0 for all.
  """

  def forward(params, columns, want):
    tokens = columns['tokens']
    hidden = model.apply(
      params, tokens, columns['positions'], columns['segments']
    )
    return heads.columns(
      model,
      params,
      hidden,
      tokens,
      want,
      temperature=temperature,
      chunk=chunk or None,
    )

  return forward
