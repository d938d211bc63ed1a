"""arl, the public way: compositions, jitted, with their metrics."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from arl import levels
from arl.kernels import advantages, aggregations, ratios
from arl.methods import compose, grpo, ppo, sequence
from benchmarks import cases

PACKAGES = ('arl', 'jax', 'jaxlib', 'numpy')


def columns(arrays: dict[str, np.ndarray]) -> dict:
  """The columns of a batch with one sequence a row."""
  rows = arrays['mask'].shape[0]
  index = np.arange(rows, dtype=np.int32)[:, None]
  names = ('old_logp', 'ref_logp', 'rewards')
  return {
    'mask': jnp.asarray(arrays['mask'] > 0),
    'seq': levels.level(index, rows),
    'group': levels.level(index // cases.GROUP, rows // cases.GROUP),
    'old_value': jnp.asarray(arrays['value']),
    **{name: jnp.asarray(arrays[name]) for name in names},
  }


def _loss(objective: compose.Objective):
  method = compose.method(objective)

  @jax.jit
  def update(logp, columns, credits):
    weights = method.weigh(columns, credits)

    def loss(logp):
      return method.loss({**columns, 'logp': logp}, credits, weights)

    return jax.value_and_grad(loss, has_aux=True)(logp)

  def outputs(result):
    (loss, _), gradient = result
    return {'loss': np.asarray(loss), 'gradient': np.asarray(gradient)}

  def make(arrays):
    logp, given = jnp.asarray(arrays['logp']), columns(arrays)
    on_tokens = np.where(given['mask'], arrays['advantage'][:, None], 0)
    credits = {term.name: {} for term in objective.terms}
    credits['policy'] = {'advantage': jnp.asarray(on_tokens)}
    return cases.Work(
      lambda: jax.block_until_ready(update(logp, given, credits)), outputs
    )

  return make


def _credit(objective: compose.Objective):
  credit = jax.jit(compose.method(objective).credit)

  def outputs(result):
    made = {n: x for term in result.values() for n, x in term.items()}
    return {name: np.asarray(x) for name, x in made.items()}

  def make(arrays):
    given = columns(arrays)
    return cases.Work(lambda: jax.block_until_ready(credit(given)), outputs)

  return make


def _kernel(kernel: Callable, *names: str):
  jitted = jax.jit(kernel)

  def make(arrays):
    given = columns(arrays)
    read = {name: given[name] for name in names}
    return cases.Work(
      lambda: jax.block_until_ready(jitted(**read)),
      lambda result: {'column': np.asarray(result)},
    )

  return make


def _sequence_ratio(arrays):
  """The kernel with its gradient, given one for each token."""
  given = columns(arrays)

  @jax.jit
  def both(logp, old_logp, mask, seq, cotangent):
    value, back = jax.vjp(
      lambda logp: jnp.broadcast_to(
        ratios.sequence(logp, old_logp, mask, seq), mask.shape
      ),
      logp,
    )
    return value, back(cotangent)[0]

  logp, cotangent = jnp.asarray(arrays['logp']), jnp.asarray(arrays['value'])
  read = (logp, given['old_logp'], given['mask'], given['seq'], cotangent)
  return cases.Work(
    lambda: jax.block_until_ready(both(*read)),
    lambda result: dict(zip(('column', 'gradient'), map(np.asarray, result))),
  )


def rows() -> dict[str, Callable]:
  """What is compared: objectives, credit, and kernels that pool."""
  return {
    'ppo_clip': _loss(ppo.ppo(clip=cases.CLIP, kl_coef=0)._replace(terms=())),
    'grpo_k3': _loss(grpo.grpo(clip=cases.CLIP, kl_coef=cases.KL_COEF)),
    'gspo': _loss(sequence.gspo(low=cases.GSPO_LOW, high=cases.GSPO_HIGH)),
    'cispo': _loss(grpo.cispo(high=cases.CISPO_HIGH)),
    'gae': _credit(ppo.ppo(gamma=cases.GAMMA, lam=cases.LAM, kl_coef=0)),
    'group_advantage': _credit(grpo.grpo(kl_coef=0)),
    'group_normalize': _kernel(
      advantages.group_normalize, 'rewards', 'mask', 'seq', 'group'
    ),
    'sequence_ratio': _sequence_ratio,
    'sequence_mean': _kernel(aggregations.sequence_mean, 'mask', 'seq'),
  }
