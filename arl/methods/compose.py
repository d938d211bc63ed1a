"""Composition by name: terms of kernels become a Method.

Everything a method reads, and every number bound to a kernel, is checked when
it is built, before anything runs. `binding` says how kernels name columns.

Masking happens here, once: kernels see columns that are 0 off the mask, before
any exp, and what they give is 0 off the mask again. So padding full of nan, inf
or 1e9 changes neither a value nor a gradient.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from arl import columns as columns_lib
from arl import levels, types
from arl.kernels import monitors, ratios
from arl.methods import binding, checks

_POLICY = columns_lib.filled_by(columns_lib.POLICY)
_OBSERVED = columns_lib.filled_by(columns_lib.PACK)
_TAKEN = ('metrics', 'total')  # a method adds these beside its terms
MONITORS = (('ratio', monitors.ratio), ('kl', monitors.policy_kl))


class Term(NamedTuple):
  """One summand of a loss: coef * sum(weights * loss).

  Attributes:
    name: unique in its method; its loss is the metric 'loss/NAME'.
    loss: steps whose last one gives 'loss', differentiated.
    aggregate: kernel that gives the weights; it may read what `credit` gives.
    credit: steps run once a rollout batch, without gradient.
    coef: the factor of the term.
    monitors: steps whose token means are metrics named 'NAME/STEP'.
  """

  name: str
  loss: types.Steps
  aggregate: types.Kernel
  credit: types.Steps = ()
  coef: float = 1.0
  monitors: types.Steps = ()


class Objective(NamedTuple):
  """A policy-gradient method by its axes; further terms ride along.

  The policy term is -sg(product of corrections) * surrogate.

  Attributes:
    advantage: a kernel, or steps that give 'advantage' or 'preferred'.
    surrogate: kernel, gives what is to be maximized.
    aggregate: kernel, gives the weights.
    ratio: kernel, gives 'log_ratio'; used only if something reads it.
    corrections: kernels whose product multiplies the objective, no gradient.
    terms: further terms: KL, entropy, critic, imitation.
    monitors: steps whose token means are metrics, to which that of a clipping
      surrogate is added; those that read 'log_ratio' are left out of an
      objective without a ratio.
  """

  advantage: types.Kernel | types.Steps
  surrogate: types.Kernel
  aggregate: types.Kernel
  ratio: types.Kernel = ratios.token
  corrections: tuple[types.Kernel, ...] = ()
  terms: tuple[Term, ...] = ()
  monitors: types.Steps = MONITORS


def steps(advantage: types.Kernel | types.Steps) -> types.Steps:
  """Credit steps: a lone kernel is the step that gives 'advantage'."""
  return (('advantage', advantage),) if callable(advantage) else advantage


def term_of(objective: Objective) -> Term:
  """The policy term of an objective; refuses one that counts a ratio twice."""
  checks.check_rho(objective)
  surrogate, corrections = objective.surrogate, objective.corrections
  readers = (surrogate, *corrections)
  with_ratio = any('log_ratio' in binding.read_by(kernel) for kernel in readers)
  factors = tuple((f'factor_{i}', k) for i, k in enumerate(corrections))

  def negate(objective, **factors):
    factor = math.prod(factors.values())
    return -jax.lax.stop_gradient(factor) * objective

  binding.declare(negate, ['objective', *(name for name, _ in factors)])
  ratio = (('log_ratio', objective.ratio),) if with_ratio else ()
  return Term(
    name='policy',
    loss=(*ratio, ('objective', surrogate), *factors, ('loss', negate)),
    aggregate=objective.aggregate,
    credit=steps(objective.advantage),
    monitors=tuple(
      (name, kernel)
      for name, kernel in (*objective.monitors, *_clipping(surrogate))
      if with_ratio or 'log_ratio' not in binding.read_by(kernel)
    ),
  )


def _clipping(surrogate: types.Kernel) -> types.Steps:
  """The share of tokens that a surrogate clips, if it is one that does."""
  function = binding.function_of(surrogate)
  if function in monitors.CLIPPED:
    return (('clip_fraction', monitors.clip_fraction),)
  if function not in monitors.CAPPED:
    return ()
  monitor = monitors.CAPPED[function]
  bound = binding.hyperparameters(surrogate)
  own = {n: x for n, x in bound.items() if n in binding.read_by(monitor)}
  return (('capped', functools.partial(monitor, **own)),)


def only(objective: Objective, keep: types.Kernel) -> Objective:
  """The objective on the tokens `keep` leaves, in numerator and denominator.

  Credit is assigned before, over all of them: a sequence that is left out still
  counts in the baseline of its group. To leave it out there as well, select
  episodes before they are credited (`arl.prompts.select`).

  Args:
    objective: its aggregates must read `mask`.
    keep: a kernel of observed columns and of credits made before; true or not 0
      where a token stays.
  """
  return objective._replace(
    advantage=_keeping(steps(objective.advantage), keep),
    aggregate=on_kept(objective.aggregate),
    terms=tuple(
      term._replace(
        credit=_keeping(term.credit, keep),
        aggregate=on_kept(term.aggregate),
      )
      for term in objective.terms
    ),
  )


def _keeping(credit: types.Steps, keep: types.Kernel) -> types.Steps:
  """The steps and 'kept', which leaves no more than an earlier one of them."""
  if all(name != 'kept' for name, _ in credit):
    return (*credit, ('kept', keep))

  def both(kept, **columns):
    return kept.astype(bool) & keep(**columns).astype(bool)

  binding.declare(both, dict.fromkeys(('kept', *binding.read_by(keep))))
  return (*credit, ('kept', both))


def on_kept(aggregate: types.Kernel) -> types.Kernel:
  """The aggregate over the tokens that the credit `kept` leaves."""
  if 'kept' in binding.read_by(aggregate):
    return aggregate

  def kept(**columns):
    columns['mask'] &= columns.pop('kept').astype(bool)
    return aggregate(**columns)

  reads = dict.fromkeys((*binding.read_by(aggregate), 'mask', 'kept'))
  functools.update_wrapper(kept, aggregate, assigned=(), updated=())
  kept.__name__ = binding.kernel_name(aggregate)
  binding.declare(kept, reads)
  return kept


def terms_of(*parts: Term | Objective) -> tuple[Term, ...]:
  """All terms of a method's parts, the policy term of an objective first."""
  flat: list[Term] = []
  for part in parts:
    if isinstance(part, Objective):
      flat += [term_of(part), *part.terms]
    elif isinstance(part, Term):
      flat.append(part)
    else:
      raise TypeError(
        f'method() takes Term and Objective, not {type(part).__name__}.'
      )
  if not flat:
    raise ValueError('method() has nothing to minimize: give it a term.')
  named = [*_TAKEN, *(term.name for term in flat)]
  twice = [name for name in named if named.count(name) > 1]
  if twice:
    raise ValueError(
      f'method(): the name {twice[0]!r} is taken; rename the term:'
      ' term._replace(name=...).'
    )
  return tuple(flat)


def visible(columns: types.Columns) -> dict:
  """The columns as kernels see them: float columns are 0 off the mask.

  Raises:
    ValueError: a column is neither [B, T, ...] nor a scalar nor a Level.
  """
  mask = columns['mask']

  def show(name, x):
    if isinstance(x, levels.Level) or jnp.ndim(x) == 0:
      return x
    if x.shape[:2] != mask.shape:
      raise ValueError(
        f'column {name!r} is {x.shape}, wanted {mask.shape} as the mask, or a'
        ' scalar.'
      )
    if not jnp.issubdtype(x.dtype, jnp.floating):
      return x
    on = mask.reshape(mask.shape + (1,) * (x.ndim - 2))
    return jnp.where(on, x, 0)

  return {name: show(name, x) for name, x in columns.items()}


def run(chain: types.Steps, columns: dict) -> dict:
  """Runs steps in order over visible columns; each result is 0 off the mask.

  Raises:
    ValueError: a kernel's result is no column of the batch.
  """
  mask, made = columns['mask'], dict(columns)
  for name, kernel in chain:
    value = kernel(
      **{column: made[column] for column in binding.read_by(kernel)}
    )
    if jnp.shape(value) not in (mask.shape, (len(mask), 1)):
      raise ValueError(
        f'kernel {binding.kernel_name(kernel)!r} gave {jnp.shape(value)} for'
        f' {name!r}, wanted {mask.shape}.'
      )
    made[name] = jnp.where(mask, value, jnp.zeros((), value.dtype))
  return made


def _only(chain: types.Steps, made: dict) -> dict:
  return {name: made[name] for name, _ in chain}


def _term_loss(term, columns, credits, weights):
  """A term's coef * sum(weights * loss) and its metrics, one microbatch."""
  made = run((*term.loss, *term.monitors), {**columns, **credits})
  mean = weights['metrics']

  loss = made['loss']
  loss = term.coef * jnp.sum(loss * weights[term.name].astype(loss.dtype))
  metrics = {
    f'{term.name}/{name}': jnp.sum(made[name]) * mean.astype(made[name].dtype)
    for name, _ in term.monitors
  }
  return loss, {f'loss/{term.name}': loss, **metrics}


def method(*parts: Term | Objective) -> types.Method:
  """The sum of terms as a Method, checked as it is built.

  Args:
    *parts: terms and objectives; an objective brings its own terms.

  Raises:
    ValueError: a kernel reads what nothing provides, a name is taken, or there
      is no term.
    TypeError: a part is neither a Term nor an Objective.
  """
  terms = terms_of(*parts)
  checked = [checks.check(term) for term in terms]
  needs = frozenset().union(*(n for n, _ in checked)) - _OBSERVED - {'logp'}
  whole = frozenset().union(*(w for _, w in checked))

  def credit(columns):
    seen = visible({n: x for n, x in columns.items() if n not in _POLICY})
    made = {t.name: _only(t.credit, run(t.credit, seen)) for t in terms}
    return jax.lax.stop_gradient(made)

  def weigh(columns, credits):
    seen = visible({n: x for n, x in columns.items() if n not in _POLICY})
    weights = {
      t.name: run((('weights', t.aggregate),), {**seen, **credits[t.name]})[
        'weights'
      ]
      for t in terms
    }
    tokens = jnp.sum(columns['mask'], dtype=float)
    return {**weights, 'metrics': 1 / jnp.maximum(tokens, 1)}

  def loss(columns, credits, weights):
    frozen = jax.lax.stop_gradient(dict(columns))
    policy = {n: x for n, x in columns.items() if n in _POLICY}
    seen = visible({**frozen, **policy})
    results = [_term_loss(t, seen, credits[t.name], weights) for t in terms]
    total = sum(loss for loss, _ in results)
    metrics = {k: v for _, each in results for k, v in each.items()}
    return total, {'loss/total': total, **jax.lax.stop_gradient(metrics)}

  return types.Method(credit, weigh, loss, needs, whole)
