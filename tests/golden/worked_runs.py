"""What recipes and kernels make of small batches, for the worked examples.

Each function gives a row of a table: a function without arguments that computes
an array. A column comes back as a masked array, hidden off the mask. `at` makes
the batch; without it the worked sequences are used.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import worked

from arl import levels, methods
from arl.kernels import surrogates
from arl.methods import binding, compose

Row = Callable[[], Any]
Table = dict[str, Row | tuple[Row, ...]]
# PPO's clip as a base, for recipes that change one.
PPO = {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.2}


Part = Any  # a recipe's name, or what was composed by hand


class Result(NamedTuple):
  """What a method makes of a batch."""

  loss: jax.Array
  metrics: dict
  gradient: jax.Array  # in logp
  credits: dict
  columns: dict


def fixture(fill: float = jnp.nan, **changes) -> dict:
  """The worked sequences with all that a recipe may read."""
  return {
    **worked.batch(fill),
    'rollout_logp': worked.column(worked.ROLLOUT_LOGP, fill),
    'old_entropy': worked.column(worked.ENTROPY, fill),
    'rollout_entropy': worked.column(worked.ENTROPY, fill),
    'baseline': worked.per_sequence([0.5] * 4, fill),
    'progress': jnp.asarray(1.0),
    **changes,
  }


def rewarded(*rewards: float) -> Callable[[], dict]:
  """The worked sequences with other rewards."""
  return lambda: fixture(rewards=worked.at_end(rewards, jnp.nan))


def two_groups() -> dict:
  return fixture(group=worked.level([0, 0, 1, 1], 3))


def rows(lengths: tuple[int, ...], **columns) -> Callable[[], dict]:
  """Sequences, one a row and all of one group; columns are rows of numbers."""

  def make():
    size, width = len(lengths), max(lengths)
    return {
      'mask': worked.mask(lengths),
      'seq': worked.sequences(size, width),
      'turn': worked.sequences(size, width),
      'group': worked.one_group(size, width),
      **{n: worked.column(x, jnp.nan) for n, x in columns.items()},
    }

  return make


def each_token(size: int, width: int) -> levels.Level:
  """A level whose segments are single tokens."""
  ids = np.arange(size * width, dtype=np.int32).reshape(size, width)
  return levels.level(ids, ids.size)


def token(log_ratio: float, advantage: float) -> Callable[[], dict]:
  """One token of this ratio, whose reward is its advantage."""
  return rows((1,), logp=[[log_ratio]], old_logp=[[0.0]], rewards=[[advantage]])


def given(part: Any) -> Any:
  """A part whose advantage is the reward: for examples that give it."""
  return part._replace(advantage=lambda rewards: rewards)


def _made(part, numbers):
  return methods.make(part, **numbers) if isinstance(part, str) else part


def run(part, at=fixture, **numbers) -> Result:
  """The whole of a recipe: credit, weights, loss and gradient."""
  method, columns = compose.method(_made(part, numbers)), at()
  credits = method.credit(columns)
  weights = method.weigh(columns, credits)

  def loss(logp):
    return method.loss({**columns, 'logp': logp}, credits, weights)

  # A batch without a policy is credited, and its loss is that of the values.
  logp = columns.get('logp', jnp.zeros_like(columns['mask'], float))
  (value, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(logp)
  return Result(value, metrics, gradient, credits, columns)


def hidden(column, columns) -> np.ma.MaskedArray:
  return np.ma.array(column, mask=~np.asarray(columns['mask']))


def metric(name: str, part, at=fixture, **numbers) -> Row:
  """One number of a run: 'loss/total', 'loss/policy', ..."""
  return lambda: run(part, at, **numbers).metrics[name]


def loss(part, at=fixture, **numbers) -> Row:
  """The policy's loss, without further terms."""
  return metric('loss/policy', part, at, **numbers)


def term(name: str, part, at=fixture, **numbers) -> Row:
  """The loss of one term, with its coefficient."""
  return metric(f'loss/{name}', part, at, **numbers)


def grad(part, at=fixture, times: float = 1.0, **numbers) -> Row:
  def row():
    made = run(part, at, **numbers)
    return hidden(times * made.gradient, made.columns)

  return row


def credit(
  part, at=fixture, name='advantage', term=0, first=None, **numbers
) -> Row:
  """What credit steps give.

  Args:
    part: an objective.
    at: makes the batch.
    name: of the step.
    term: of the part, the policy's being the first.
    first: how many steps are run; None for all.
    **numbers: of the recipe.
  """

  def row():
    columns = at()
    chain = compose.terms_of(_made(part, numbers))[term].credit[:first]
    made = compose.run(chain, compose.visible(columns))
    return hidden(made[name], columns)

  return row


def kernel(function, at=fixture, **numbers) -> Row:
  """A kernel on a batch."""

  def row():
    columns = at()
    shown = compose.visible(columns)
    bound = functools.partial(function, **numbers)
    read = {name: shown[name] for name in binding.read_by(bound)}
    return hidden(bound(**read), columns)

  return row


def _axis(pick) -> Callable[..., Row]:
  def make(part, at=fixture, **numbers):
    return lambda: kernel(pick(_made(part, numbers)), at)()

  return make


ratio = _axis(lambda made: _then(made.ratio, surrogates.ratio))
log_ratio = _axis(lambda made: made.ratio)
factor = _axis(lambda made: made.corrections[-1])


def _then(inner, outer):
  """A kernel, and a function of its result."""

  def both(**columns):
    return outer(inner(**columns))

  binding.declare(both, list(binding.read_by(inner)))
  return both


def of(function: Callable, *given: Row) -> Row:
  """A function of other rows."""
  return lambda: function(*(row() for row in given))
