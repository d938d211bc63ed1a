"""Every method there is, and what it makes of a batch.

RECIPES is whatever `launch.table` finds, so a recipe cannot be left out of the
laws; TERMS are the further terms, each beside an objective. Methods are run
many batches at a time: columns have a leading axis, see `batches.join`.
"""

import functools
import inspect
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import batches
import jax
import jax.numpy as jnp
import numpy as np

from arl import methods, types
from arl.kernels import corrections, divergences, ratios, surrogates
from arl.methods import binding, compose, grpo, terms
from launch import table

# Where the default would never bind on the small batches of the tests.
SMALL: dict[str, dict[str, float]] = {
  'agentic.step_aligned_clip': {'low': 0.1, 'high': 0.15},
  'agentic.steppo': {'low': 0.1, 'high': 0.15},
  'filters.overlong_shaped': {'longest': 4.3, 'cache': 3},
  'grpo.cispo': {'high': 0.2},
  'grpo.dr_grpo': {'length': 16},
  'grpo.dual_clip': {'cap': 1.1},
  'grpo.grpo_pp': {'length': 16},
  'grpo.two_sided': {'delta': 1.3},
  'offpolicy.drop_stale': {'kappa': 0.3},
  'offpolicy.estr': {'tau': 0.05},
  'offpolicy.mis_mean': {'low': 0.7, 'high': 1.3},
  'offpolicy.opsm': {'delta': 0.05},
  'ppo.bpco': {'bound': 0.1},
  'ppo.vapo': {'alpha': 0.5},
  'ppo.sao': {'alpha': 0.5},
  'regression.pair_hard': {'delta': 0.2},
  'reinforce.reinforce': {'gamma': 0.9},
  'sequence.gmpo': {'low': 0.1, 'high': 0.1},
  'sequence.gspo': {'low': 0.1, 'high': 0.15},
  'sequence.gspo_token': {'low': 0.1, 'high': 0.15},
  'soft.bpo': {'cap': 1.1},
  'soft.dppo': {'low': 0.02, 'high': 0.02},
  'soft.dppo_kl': {'low': 0.005, 'high': 0.005},
}
RECIPES: dict[str, Any] = {
  name: methods.make(name, **SMALL.get(name, {})) for name, _ in table.recipes()
}
ESTIMATORS: dict[str, types.Kernel] = {
  name: kernel
  for name, kernel in inspect.getmembers(divergences, inspect.isfunction)
  if 'ref_logp' in binding.read_by(kernel)
}
_BESIDE = {
  **{f'kl.{name}': terms.kl(0.1, k) for name, k in ESTIMATORS.items()},
  'beside.entropy': terms.entropy(0.1),
  'beside.critic': terms.critic(0.5, gamma=0.9, lam=0.8, clip=0.2),
  'beside.positive': terms.positive(0.1),
  'beside.demonstrated': terms.demonstrated(0.1),
  'beside.adaptive_kl': terms.adaptive_kl(),
}
TERMS = {
  name: grpo.dapo()._replace(terms=(term,)) for name, term in _BESIDE.items()
}
PARTS: dict[str, Any] = {**RECIPES, **TERMS}
METHODS = {name: compose.method(part) for name, part in PARTS.items()}
# Those that credit an action by an advantage; preferences mark it instead.
OBJECTIVES: dict[str, compose.Objective] = {
  name: part
  for name, part in PARTS.items()
  if isinstance(part, compose.Objective)
  and 'advantage' in dict(compose.steps(part.advantage))
}


def kernels(part) -> Iterator[types.Kernel]:
  """The plain functions that a method is made of."""
  for term in compose.terms_of(part):
    for _, kernel in (*term.credit, *term.loss):
      yield binding.function_of(kernel)
    yield binding.function_of(term.aggregate)


def made_of(*functions: types.Kernel) -> set[str]:
  """The names of the methods that hold one of these kernels."""
  return {n for n, p in PARTS.items() if set(functions) & set(kernels(p))}


def reading(column: str) -> set[str]:
  """The names of the methods with a credit step that reads a column."""
  return {
    name
    for name, part in PARTS.items()
    for term in compose.terms_of(part)
    if any(column in binding.read_by(kernel) for _, kernel in term.credit)
  }


# What a term that pulls on each token by itself reads.
_OF_TOKENS = {'logp', 'teacher_logp', 'hinted'}


class Result(NamedTuple):
  """What a method makes of a batch."""

  credits: dict
  weights: dict
  loss: jax.Array
  gradient: dict
  metrics: dict


def loss_and_gradient(method, columns, credits, weights):
  """((loss, metrics), gradient in the policy's columns)."""

  def loss(policy):
    return method.loss({**columns, **policy}, credits, weights)

  policy = {name: columns[name] for name in batches.POLICY}
  return jax.value_and_grad(loss, has_aux=True)(policy)


def result(method, columns) -> Result:
  """A method on one batch."""
  credits = method.credit(columns)
  weights = method.weigh(columns, credits)
  (loss, metrics), gradient = loss_and_gradient(
    method, columns, credits, weights
  )
  return Result(credits, weights, loss, gradient, metrics)


def modules() -> list[list[str]]:
  """The names of METHODS by module: what is compiled together."""
  names: dict[str, list[str]] = {}
  for name in METHODS:
    names.setdefault(name.split('.')[0], []).append(name)
  return list(names.values())


def _together(names: Sequence[str]):
  def run(columns):
    return {name: result(METHODS[name], columns) for name in names}

  return jax.vmap(run)


@functools.cache
def _compiled(names: tuple[str, ...]):
  return jax.jit(_together(names))


def evaluate(columns) -> dict[str, Result]:
  """All methods on stacked batches, in numpy; compiled once for all laws."""
  results: dict[str, Result] = {}
  for names in modules():
    results |= jax.device_get(_compiled(tuple(names))(columns))
  return results


def at_once(columns) -> dict[str, Result]:
  """`evaluate` without compiling, for columns of a shape that is met once."""
  return jax.device_get(_together(list(METHODS))(columns))


@functools.cache
def plain(stack: int = 0) -> dict[str, Result]:
  """All methods on `batches.padded`."""
  return evaluate(batches.padded(stack))


def on_policy(columns):
  """The columns as they are where nothing has moved."""
  acted = ('old_logp', 'rollout_logp', 'ref_logp')
  return {**columns, **dict.fromkeys(acted, columns['logp'])}


def reinforced(objective, columns, result) -> np.ndarray:
  """The gradient of REINFORCE under an objective's credit and weights.

  What it is of many tokens, if the ratio is theirs together, and with the terms
  that imitate.
  """
  credit = result.credits['policy']
  advantage = credit['advantage']
  if corrections.credited in objective.corrections:
    advantage = advantage * credit['factor']
  weighted = jnp.asarray(-result.weights['policy'] * advantage)
  want = jax.vmap(functools.partial(_pull, objective))(columns, weighted)
  for term in objective.terms:
    (_, kernel), *rest = term.loss
    if not rest and set(binding.read_by(kernel)) <= _OF_TOKENS:
      pull = jax.vmap(functools.partial(_pull_of_term, kernel))(columns)
      want += term.coef * result.weights[term.name] * pull
  return np.where(columns['mask'], want, 0)


def _pull_of_term(kernel, columns):
  """The gradient of a term in each token's own log-prob."""
  seen = compose.visible(columns)
  others = {n: seen[n] for n in binding.read_by(kernel) if n != 'logp'}
  run = functools.partial(kernel, **others)
  return jax.grad(lambda x: jnp.sum(run(logp=x)))(seen['logp'])


def _pull(objective, columns, weighted):
  """What the pooling of ratios makes of a gradient that tokens have."""
  read = binding.read_by(objective.surrogate)
  through = 'log_ratio' in read and 'logp' not in read
  mean = binding.function_of(objective.surrogate) is surrogates.geometric
  pooled = ([ratios.sequence] if mean else []) + [objective.ratio] * through
  seen = compose.visible({**columns, 'old_logp': columns['logp']})
  for ratio in pooled:
    others = {n: seen[n] for n in binding.read_by(ratio) if n != 'logp'}
    run = functools.partial(ratio, **others)
    pull = jax.vjp(lambda x, run=run: run(logp=x), seen['logp'])[1]
    (weighted,) = pull(weighted)
  return weighted


def close(got, want, what, atol=1e-6):
  """Asserts that two arrays agree up to rounding."""
  np.testing.assert_allclose(got, want, atol=atol, rtol=1e-5, err_msg=what)
