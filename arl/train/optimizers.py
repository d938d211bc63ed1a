"""Optimizers: optax chains by name, and which parameters they move."""

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from optax import contrib

from arl import names, ranges
from arl.models import functional


def adamw(
  *,
  lr: ranges.NonNegative,
  warmup: ranges.Lag,
  decay: ranges.Lag,
  b1: ranges.Decay,
  b2: ranges.Decay,
  weight_decay: ranges.NonNegative,
  max_norm: ranges.Positive,
  schedule: str = 'schedules.cosine',
) -> optax.GradientTransformation:
  """AdamW on the gradient of the whole update, clipped by its global norm.

  Args:
    lr: the peak learning rate.
    warmup: updates of linear warm-up from 0.
    decay: updates from the start to the end of the decay to 0; 0 keeps the peak
      for ever.
    b1: decay of the first moment.
    b2: decay of the second moment.
    weight_decay: decoupled, times the learning rate.
    max_norm: the gradient is scaled down to this norm.
    schedule: the function of `arl.train.schedules`, or of a dotted path, that
      the rate decays by.
  """
  rate = _rate(schedule, lr, warmup, decay)
  return optax.chain(
    clipped(max_norm),
    optax.adamw(rate, b1=b1, b2=b2, weight_decay=weight_decay),
  )


def clipped(max_norm: float) -> optax.GradientTransformation:
  """The gradient scaled down to a global norm.

  As optax.clip_by_global_norm, by one factor: XLA does not divide twice, and
  would keep the divided gradient beside the gradient.
  """

  def update(grads, state, params=None):
    del params
    norm = optax.tree.norm(grads)
    factor = jnp.where(norm < max_norm, 1.0, max_norm / norm)
    scale = lambda x: x * factor.astype(x.dtype)
    return jax.tree.map(scale, grads), state

  return optax.GradientTransformation(optax.init_empty_state, update)


def muon(
  *,
  lr: ranges.NonNegative,
  warmup: ranges.Lag,
  decay: ranges.Lag,
  momentum: ranges.Decay,
  b1: ranges.Decay,
  b2: ranges.Decay,
  weight_decay: ranges.NonNegative,
  max_norm: ranges.Positive,
  schedule: str = 'schedules.cosine',
) -> optax.GradientTransformation:
  """Muon for the matrices of the layers, AdamW for everything else.

  Muon (Jordan, 2024) takes the momentum of a matrix [n, m], looks one step
  ahead, and replaces it by a matrix with the same singular vectors and singular
  values near 1: five steps of a quintic Newton-Schulz iteration from the
  momentum over its Frobenius norm. Times 0.2 sqrt(max(n, m)) a change has the
  size of one of AdamW's, so both share a learning rate and a weight decay
  (Moonlight, 2502.16982). Embeddings, head, norms, biases and a value head are
  AdamW's, without Nesterov's look ahead.

  The momentum is optax's: a mean of the gradients, corrected for its start from
  0, where Jordan's is their sum. Its size does not matter; but the look ahead
  corrects its two parts by different powers, so that in the first tens of
  updates the newest gradient weighs more than in his. The iteration, its
  constants and the transposition of tall matrices are the same. All heads of a
  query, key or value projection make one matrix.

  Args:
    lr: the peak learning rate.
    warmup: updates of linear warm-up from 0.
    decay: updates from the start to the end of the decay to 0; 0 keeps the peak
      for ever.
    momentum: Muon's decay of the momentum; 0.95 in the papers.
    b1: AdamW's decay of the first moment.
    b2: AdamW's decay of the second moment.
    weight_decay: decoupled, times the learning rate; of both.
    max_norm: the gradient of all parameters is scaled down to this norm.
    schedule: the function of `arl.train.schedules`, or of a dotted path, that
      the rate decays by.
  """
  rate = _rate(schedule, lr, warmup, decay)
  parts = {
    'muon': contrib.muon(
      rate,
      beta=momentum,
      eps=1e-7,
      weight_decay=weight_decay,
      consistent_rms=0.2,
    ),
    'adamw': optax.adamw(rate, b1=b1, b2=b2, weight_decay=weight_decay),
  }
  return optax.chain(clipped(max_norm), optax.partition(parts, _muon_or_adamw))


def critic_first(
  *, base: Mapping[str, Any], every: ranges.Count, alone: ranges.Lag
) -> optax.GradientTransformation:
  """The critic learns faster, and before, the policy.

  Single-rollout asynchronous optimization (2607.07508) updates its critic twice
  for each update of the policy, and alone at first. Where the policy stays,
  what its optimizer knows stays too. Each of the two has its own norm of the
  gradient. The policy is all that is not under the value head, so the critic
  wants a trunk of its own: config.model.critic.

  Args:
    base: the block of the optimizer of both.
    every: updates of the critic for one of the policy, which comes last; 1 for
      both at a time.
    alone: updates of the critic before those.

  Raises:
    ValueError: no critic to train, or a number of the base out of its range.
  """
  keywords = dict(base)
  name = keywords.pop('name')
  function = names.resolve(name, 'arl.train')
  ranges.check(name, function, keywords)
  tx = function(**keywords)
  due = lambda n: (n >= alone) & ((n - alone) % every == every - 1)
  parts = {'critic': tx, 'policy': optax.conditionally_mask(tx, due)}
  return optax.partition(parts, _critic_or_policy)


def multiplies(update: Callable, *given: Any) -> bool:
  """Whether a function of arrays computes a product of matrices."""
  return 'dot_general' in str(jax.make_jaxpr(update)(*given))


def _rate(schedule: str, lr: float, warmup: int, decay: int) -> optax.Schedule:
  made = names.resolve(schedule, 'arl.train')
  return made(lr=lr, warmup=warmup, decay=decay)


def _paths(params: functional.Params) -> Any:
  """The path of each parameter, such as 'layers/3/mlp/up/kernel'."""
  return jax.tree_util.tree_map_with_path(
    lambda path, _: jax.tree_util.keystr(path, simple=True, separator='/'),
    params,
  )


def _muon_or_adamw(params: functional.Params) -> Any:
  """Who moves each parameter."""
  made = jax.tree.map(
    lambda path, x: (
      'muon' if x.ndim == 2 and path.startswith('layers/') else 'adamw'
    ),
    _paths(params),
    params,
  )
  if 'muon' not in jax.tree.leaves(made):
    raise ValueError(
      'muon: no matrix of a layer is trained; name optimizers.adamw, or let'
      ' updates.frozen leave some.'
    )
  return made


def _critic_or_policy(params: functional.Params) -> Any:
  """Whose each parameter is."""
  head = f'{functional.VALUE_HEAD}/'
  whose = lambda path: 'critic' if path.startswith(head) else 'policy'
  made = jax.tree.map(whose, _paths(params))
  if 'critic' not in jax.tree.leaves(made):
    raise ValueError(
      'critic_first: there is no value head; name another optimizer, or a'
      ' method with a critic.'
    )
  return made


def matching(params: functional.Params, pattern: str) -> Any:
  """Which parameters a regular expression names, as a tree of bool.

  Args:
    params: of a model.
    pattern: matched against whole paths such as 'layers/3/mlp/up/kernel'.

  Raises:
    ValueError: the pattern is none, or it matches no parameter or all.
  """
  try:
    compiled = re.compile(pattern)
  except re.error as error:
    raise ValueError(
      f'frozen: {pattern!r} is no regular expression: {error}.'
    ) from error
  paths = _paths(params)
  found = jax.tree.map(lambda path: bool(compiled.fullmatch(path)), paths)
  if len(set(jax.tree.leaves(found))) != 2:
    which = 'every' if all(jax.tree.leaves(found)) else 'no'
    some = ', '.join(jax.tree.leaves(paths)[:3])
    raise ValueError(
      f'frozen: {pattern!r} matches {which} parameter; match some but not all,'
      f' from start to end, of {some}, ...'
    )
  return found


def except_for(
  tx: optax.GradientTransformation, frozen: str
) -> optax.GradientTransformation:
  """The optimizer, without updates or state for parameters that match."""
  fixed = lambda params: matching(params, frozen)
  moved = lambda params: jax.tree.map(operator.not_, fixed(params))
  still = optax.masked(optax.set_to_zero(), fixed)
  return optax.chain(still, optax.masked(tx, moved))
