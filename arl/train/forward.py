"""From parameters and columns to the columns of the policy."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from arl import columns as columns_lib
from arl.models import critics, functional, heads, teachers
from arl.train import optimizers, prefixes, routing

Forward = Callable[..., dict]  # (params, columns, want) -> columns
_OF_TOKENS = frozenset(columns_lib.IDS)


def make(
  model: functional.Model,
  *,
  temperature: float,
  chunk: int,
  teacher: functional.Model | None = None,
) -> Forward:
  """The forward pass as (params, columns, want) -> columns, 0 off the mask.

  Where the columns hold `routed_experts`, tokens go through those. Log-probs of
  K tokens are of those that the columns hold, see `columns.IDS`. With a teacher
  the pass takes the teacher's parameters too, by keyword. A critic with a trunk
  of its own reads the tokens by itself. Where the columns hold a tree, see
  `prefixes`, each of its tokens is computed once.

  Args:
    model: the policy, or a model of its shape.
    temperature: that of the rollouts: a token's probability is the one it was
      sampled with. Where the columns hold `rollout_temperature`, that of each.
    chunk: tokens whose logits are held at a time; 0 for all.
    teacher: with what the policy is compared over the whole vocabulary.
  """

  def forward(params, columns, want, *, taught=None):
    if prefixes.NODES not in columns:
      return read(params, columns, want, taught)
    made = read(params, prefixes.merged(columns), want, taught)
    return prefixes.spread(made, columns)

  def read(params, columns, want, taught):
    where = columns['mask']
    seen = columns['tokens'], columns['positions'], columns['segments']
    paths, before = columns.get('paths'), columns.get('before')
    values = critics.columns(model, params, seen, want, where, paths, before)
    want -= values.keys()
    experts = columns.get(routing.COLUMN)
    if 'rerouted' in want:
      hidden, own = model.traced(params, *seen, experts, paths)
    else:
      hidden, own = model.apply(params, *seen, experts, paths), None
    made = heads.columns(
      model,
      params,
      hidden.reshape(*where.shape, -1),
      seen[0].reshape(where.shape),
      want - {'rerouted'} - _OF_TOKENS,
      temperature=columns.get('rollout_temperature', temperature),
      chunk=chunk or None,
      where=where,
      at={n: columns[columns_lib.IDS[n]] for n in want & _OF_TOKENS},
      teacher=_reading(teacher, taught, columns) if taught else None,
      before=before,
    )
    if own is not None:
      other = routing.differs(experts, own, before)
      made['rerouted'] = other & where
    return {**made, **values}

  return forward


def _reading(
  model: functional.Model | None, params: Any, columns: Mapping[str, Any]
) -> teachers.Teacher:
  """The teacher after it read the tokens, which nothing differentiates."""
  assert model is not None
  seen = columns['tokens'], columns['positions'], columns['segments']
  params = jax.lax.stop_gradient(params)
  hidden = model.apply(params, *seen, paths=columns.get('paths'))
  return teachers.Teacher(model, params, hidden)


def without(forward: Forward, frozen: str) -> Forward:
  """The forward pass without gradient for some parameters.

  Nothing is differentiated that only frozen parameters came before: with the
  lower layers frozen, their backward pass costs nothing.

  Args:
    forward: what to wrap.
    frozen: a pattern for `optimizers.matching`.
  """

  def stopped(params, columns, want, **taught):
    fixed = optimizers.matching(params, frozen)
    params = jax.tree.map(
      lambda x, stop: jax.lax.stop_gradient(x) if stop else x, params, fixed
    )
    return forward(params, columns, want, **taught)

  return stopped
