"""The axes of an objective, as the kernels of arl have them.

An entry of an axis is a kernel with its numbers bound, and the credit steps
without which it has nothing to read. Kernels are found, not listed, so a new
one takes part in every combination; what an axis of kernels is for is read off
their columns.
"""

import functools
import inspect
import itertools
import random
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

from arl import columns as columns_lib
from arl import types
from arl.kernels import (
  advantages,
  aggregations,
  corrections,
  credit,
  importance,
  likelihoods,
  ratios,
  regressions,
  returns,
  segments,
  states,
  surrogates,
  trees,
  weights,
)
from arl.methods import binding, compose

# Numbers of kernels that have no default.
NUMBERS = {
  'cap': 1.2,
  'gamma': 0.9,
  'high': 0.28,
  'kappa': 0.2,
  'lam': 0.8,
  'length': 16.0,
  'low': 0.2,
  'tau': 0.5,
}
# Functions that give something else than their axis: marks and targets.
OTHERS = {
  advantages.comparable,
  advantages.whole_batch,
  credit.bi_level_return,
  credit.turn_return,
  credit.turn_start,
  regressions.listwise_target,
  returns.lambda_return,
  segments.closing,
  states.completed_return,
  states.shared,
  states.worth,
  trees.once_of_copies,
  weights.near_by_binary_kl,
  weights.near_by_total_variation,
}
# Corrections that pool over the whole batch, and so are credit.
OF_BATCH = corrections.self_normalized, corrections.self_normalized_sequence
STEPS = columns_lib.filled_by(columns_lib.STEP)


class Entry(NamedTuple):
  """A kernel on an axis.

  Attributes:
    name: of its function.
    kernel: with its numbers bound.
    credit: steps that give what it reads of credit, besides the advantage.
  """

  name: str
  kernel: types.Kernel
  credit: types.Steps = ()


def bound(function: types.Kernel) -> types.Kernel:
  """The function with numbers for what has no default."""
  numbers = {n: NUMBERS[n] for n in binding.read_by(function) if n in NUMBERS}
  return functools.partial(function, **numbers)


def _kernels(*modules: ModuleType) -> Iterator[Entry]:
  """The kernels of columns that modules define."""
  for module in modules:
    for name, function in inspect.getmembers(module, inspect.isfunction):
      own = function.__module__ == module.__name__ and name[0] != '_'
      if not own or function in OTHERS or function in OF_BATCH:
        continue
      entry = Entry(name, bound(function))
      if set(binding.read_by(entry.kernel)) <= set(columns_lib.COLUMNS):
        yield entry


@functools.cache
def by_rho(entry: Entry) -> bool:
  """Whether an entry counts the ratio of `old_logp` to `rollout_logp`.

  A surrogate does if it reads the latter: its own ratio has it.
  """
  kernels = entry.kernel, *(kernel for _, kernel in entry.credit)
  weighs = any(
    binding.function_of(kernel) in corrections.WEIGH_BY_RHO
    for kernel in kernels
  )
  reads = set(binding.read_by(entry.kernel))
  return weighs or {'advantage', 'rollout_logp'} <= reads


def _steps(entry: Entry) -> set[str]:
  """The columns of earlier steps that an entry reads."""
  return set(binding.read_by(entry.kernel)) & STEPS


ADVANTAGES = [
  entry
  for entry in _kernels(
    advantages, credit, likelihoods, returns, segments, states, trees
  )
  if not _steps(entry)
]
RATIOS = list(_kernels(ratios))
SURROGATES = [
  entry
  for entry in _kernels(surrogates, weights, regressions)
  if {'advantage'} <= _steps(entry) <= {'advantage', 'log_ratio'}
]
CORRECTIONS = [
  *(e for e in _kernels(corrections) if _steps(e) <= {'advantage'}),
  *(
    Entry(f.__name__, corrections.credited, (('factor', f),)) for f in OF_BATCH
  ),
]
AGGREGATIONS = [
  *(e for e in _kernels(aggregations) if not _steps(e)),
  *(
    Entry(e.name, aggregations.weighted, (('importance', e.kernel),))
    for e in _kernels(importance)
  ),
]
# No correction; one; one that weighs by rho with one that does not.
STACKS: list[list[tuple[Entry, ...]]] = [
  [()],
  [(each,) for each in CORRECTIONS],
  [
    (one, other)
    for one, other in itertools.product(CORRECTIONS, repeat=2)
    if by_rho(one) and not by_rho(other)
  ],
]


class Combination(NamedTuple):
  """A point of the product of the axes."""

  advantage: Entry
  ratio: Entry
  surrogate: Entry
  corrections: tuple[Entry, ...]
  aggregate: Entry

  def __str__(self):
    first = self.advantage, self.ratio, self.surrogate
    entries = (*first, *self.corrections, self.aggregate)
    return ' '.join(entry.name for entry in entries)


@functools.cache
def ratios_of(surrogate: Entry) -> list[Entry]:
  """The ratios to choose from: one, where none is read."""
  read = 'log_ratio' in binding.read_by(surrogate.kernel)
  return RATIOS if read else RATIOS[:1]


def counts_once(combination: Combination) -> bool:
  """Whether at most one entry weighs by rho."""
  return sum(map(by_rho, (combination.surrogate, *combination.corrections))) < 2


def product() -> Iterator[Combination]:
  """All combinations that count rho once, with at most one correction."""
  stacks = STACKS[0] + STACKS[1]
  for advantage, surrogate, stack, aggregate in itertools.product(
    ADVANTAGES, SURROGATES, stacks, AGGREGATIONS
  ):
    for ratio in ratios_of(surrogate):
      point = Combination(advantage, ratio, surrogate, stack, aggregate)
      if counts_once(point):
        yield point


def draw(rng: random.Random) -> Combination:
  """A random one of those with up to two corrections, even on each axis."""
  while True:
    surrogate = rng.choice(SURROGATES)
    point = Combination(
      rng.choice(ADVANTAGES),
      rng.choice(ratios_of(surrogate)),
      surrogate,
      rng.choice(rng.choice(STACKS)),
      rng.choice(AGGREGATIONS),
    )
    if counts_once(point):
      return point


def objective(combination: Combination) -> compose.Objective:
  """The objective at a point."""
  advantage, ratio, surrogate, stack, aggregate = combination
  asked = [step for entry in (*stack, aggregate) for step in entry.credit]
  return compose.Objective(
    advantage=(*compose.steps(advantage.kernel), *asked),
    ratio=ratio.kernel,
    surrogate=surrogate.kernel,
    corrections=tuple(entry.kernel for entry in stack),
    aggregate=aggregate.kernel,
  )
