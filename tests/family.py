"""Every recipe, products of axes, and random batches to try them on.

A new method is one row in RECIPES; the laws then hold it to account.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from arl import levels, types
from arl.kernels import advantages, aggregations, ratios, surrogates, weights
from arl.methods import compose, grpo, ppo, reinforce, sequence, terms

RECIPES: dict[str, compose.Objective | compose.Term] = {
  'reinforce': reinforce.reinforce(gamma=0.9),
  'rloo': reinforce.rloo(),
  'grpo': grpo.grpo(),
  'dr_grpo': grpo.dr_grpo(length=16),
  'dapo': grpo.dapo(),
  'cispo': grpo.cispo(high=0.2),
  'gspo': sequence.gspo(low=0.02, high=0.03),
  'gspo_token': sequence.gspo_token(low=0.02, high=0.03),
  'ppo': ppo.ppo(),
  'ppo_entropy': ppo.ppo(entropy_coef=0.01),
  'penalized_dapo': ppo.penalized(grpo.dapo(), coef=0.1),
  'imitation': terms.imitation(),
}
# Recipes whose advantage is a comparison within the group.
OF_GROUPS = (
  'rloo',
  'grpo',
  'dr_grpo',
  'dapo',
  'cispo',
  'gspo',
  'gspo_token',
  'penalized_dapo',
)
# Recipes that are a policy term and nothing else.
PLAIN = ('reinforce', *(name for name in OF_GROUPS if name != 'grpo'))

SURROGATES: dict[str, types.Kernel] = {
  'reinforce': surrogates.reinforce,
  'importance': surrogates.importance,
  'clip': functools.partial(surrogates.clip, low=0.2, high=0.28),
  'dual_clip': functools.partial(
    surrogates.dual_clip, low=0.2, high=0.2, cap=1.1
  ),
  'clipped_weight': functools.partial(weights.clipped_weight, high=0.2),
}
RATIOS: dict[str, types.Kernel] = {
  'token': ratios.token,
  'sequence': ratios.sequence,
  'sequence_token': ratios.sequence_token,
}
PRODUCTS: dict[str, compose.Objective] = {
  f'{surrogate}/{ratio}': compose.Objective(
    advantage=advantages.group_center,
    surrogate=SURROGATES[surrogate],
    aggregate=aggregations.sequence_mean,
    ratio=RATIOS[ratio],
  )
  for surrogate in SURROGATES
  for ratio in RATIOS
}
METHODS = {
  name: compose.method(part) for name, part in {**RECIPES, **PRODUCTS}.items()
}

POLICY = ('logp', 'entropy', 'value')
FLOATS = (
  'rewards',
  'rollout_logp',
  *POLICY,
  'old_logp',
  'ref_logp',
  'old_value',
)
ROWS, WIDTH, LONGEST = 8, 16, 5
GROUPS = (0, 0, 0, 1, 1, 2, 2, 3)  # of one sequence each; 3 is alone


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

  policy = {name: columns[name] for name in POLICY}
  return jax.value_and_grad(loss, has_aux=True)(policy)


def close(got, want, what, atol=1e-6):
  """Asserts that two arrays agree up to rounding."""
  np.testing.assert_allclose(got, want, atol=atol, rtol=1e-5, err_msg=what)


@jax.jit
def _evaluate(columns):
  results = {}
  for name, method in METHODS.items():
    credits = method.credit(columns)
    weights = method.weigh(columns, credits)
    (loss, metrics), gradient = loss_and_gradient(
      method, columns, credits, weights
    )
    results[name] = Result(credits, weights, loss, gradient, metrics)
  return results


def evaluate(columns) -> dict[str, Result]:
  """All methods on one batch, in numpy; compiled once for all laws."""
  return jax.device_get(_evaluate(columns))


def sequences(seed: int) -> list[dict[str, Any]]:
  """A sequence for each entry of GROUPS: its columns [n], and its group.

  Masks have gaps; one sequence has no token of the policy; the rewards of group
  2 are equal.
  """
  rng = np.random.default_rng(seed)
  made = []
  for index, group in enumerate(GROUPS):
    n = int(rng.integers(2, LONGEST + 1))
    logp = -rng.exponential(size=n)
    mask = rng.random(n) < 0.7
    mask[-1] = True
    rewards = np.where(mask, rng.normal(size=n) * (rng.random(n) < 0.5), 0)
    if group == 2:
      rewards = np.where(np.arange(n) == n - 1, 0.7, 0)
    columns = {
      'mask': mask & (index != 4),
      'rewards': rewards,
      'rollout_logp': logp + 0.1 * rng.normal(size=n),
      'logp': logp,
      'old_logp': logp + 0.4 * rng.normal(size=n),
      'ref_logp': logp + 0.3 * rng.normal(size=n),
      'entropy': rng.exponential(size=n),
      'value': rng.normal(size=n),
      'old_value': rng.normal(size=n),
    }
    made.append({**columns, 'group': group})
  return made


Place = tuple[int, int]  # row, first token
PADDED: Sequence[Place] = tuple((row, 0) for row in range(ROWS))


def tokens_at(sequence, place: Place):
  """The index of a sequence's tokens in a batch."""
  row, first = place
  return row, slice(first, first + len(sequence['mask']))


def batch(made, places: Sequence[Place] = PADDED, dtype=np.float32) -> dict:
  """Sequences as columns [ROWS, WIDTH], each at its place."""
  shape = (ROWS, WIDTH)
  columns: dict[str, Any] = {n: np.zeros(shape, dtype) for n in FLOATS}
  columns['mask'] = np.zeros(shape, bool)
  ids = {name: np.zeros(shape, np.int32) for name in ('seq', 'group', 'turn')}
  for index, (one, place) in enumerate(zip(made, places)):
    at = tokens_at(one, place)
    for name in (*FLOATS, 'mask'):
      columns[name][at] = one[name]
    ids['seq'][at] = ids['turn'][at] = index
    ids['group'][at] = one['group']
  for name, each in ids.items():
    columns[name] = levels.Level(jnp.asarray(each), ROWS)
  return {
    name: jnp.asarray(x) if isinstance(x, np.ndarray) else x
    for name, x in columns.items()
  }


def pack(made, seed: int) -> list[Place]:
  """Places for sequences in any order, up to three in a row, with gaps."""
  rng = np.random.default_rng(seed)
  per_row = WIDTH // LONGEST
  cells = rng.permutation(ROWS * per_row)[: len(made)]
  shift = rng.integers(WIDTH - per_row * LONGEST + 1, size=ROWS)
  return [
    (int(c) // per_row, int(c) % per_row * LONGEST + int(shift[c // per_row]))
    for c in cells
  ]
