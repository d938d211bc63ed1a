"""From parameters and columns to the columns of the policy."""

from collections.abc import Callable

import jax

from arl import types
from arl.models import functional, heads
from arl.train import optimizers, routing

Forward = Callable[[functional.Params, types.Columns, frozenset], dict]


def make(model: functional.Model, *, temperature: float, chunk: int) -> Forward:
  """The forward pass as (params, columns, want) -> columns, 0 off the mask.

  Where the columns hold `routed_experts`, tokens go through those.

  Args:
    model: the policy, or a model of its shape.
    temperature: that of the rollouts: a token's probability is the one it was
      sampled with.
    chunk: tokens whose logits are held at a time; 0 for all.
  """

  def forward(params, columns, want):
    tokens = columns['tokens']
    seen = [tokens, columns['positions'], columns['segments']]
    if routing.COLUMN in columns:
      seen.append(columns[routing.COLUMN])
    if 'rerouted' in want:
      hidden, own = model.traced(params, *seen)
    else:
      hidden, own = model.apply(params, *seen), None
    made = heads.columns(
      model,
      params,
      hidden,
      tokens,
      want - {'rerouted'},
      temperature=temperature,
      chunk=chunk or None,
      where=columns['mask'],
    )
    if own is not None:
      other = routing.differs(columns[routing.COLUMN], own)
      made['rerouted'] = other & columns['mask']
    return made

  return forward


def without(forward: Forward, frozen: str) -> Forward:
  """The forward pass without gradient for some parameters.

  Nothing is differentiated that only frozen parameters came before: with the
  lower layers frozen, their backward pass costs nothing.

  Args:
    forward: what to wrap.
    frozen: a pattern for `optimizers.matching`.
  """

  def stopped(params, columns, want):
    fixed = optimizers.matching(params, frozen)
    params = jax.tree.map(
      lambda x, stop: jax.lax.stop_gradient(x) if stop else x, params, fixed
    )
    return forward(params, columns, want)

  return stopped
