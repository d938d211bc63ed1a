"""The numbers of verl 0.9.1 beside the recipes of arl that give them.

The tables have a key for each name of the file. A key may hold several recipes:
each has to give the number. Of losses and gradients the advantage is the file's
and the aggregation that of the settings.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from arl import methods
from arl.kernels import divergences
from arl.methods import binding, compose, terms

# out/loss/NAME and out/grad/NAME.

Rows = tuple[Callable[..., Any], ...]


def _each(make: Callable[..., Any], *names: str) -> Rows:
  return tuple(functools.partial(make, name) for name in names)


def _plain(name, settings):
  """A recipe as it stands."""
  del settings
  return methods.make(name)


def _bounds(settings):
  low, high = settings['clip_ratio_low'], settings['clip_ratio_high']
  return {'low': low, 'high': high}


def _bounded(name, settings):
  """A recipe with the bounds of the settings."""
  return methods.make(name, **_bounds(settings))


def _even(name, settings):
  """A recipe whose two bounds are one number."""
  return methods.make(name, clip=settings['clip_ratio'])


def _capped(name, settings):
  return methods.make(name, **_bounds(settings), cap=settings['clip_ratio_c'])


def _corrected(name, settings):
  """A correction over PPO's clip, cut at a number that the settings lack."""
  base = {'name': 'grpo.dapo', **_bounds(settings)}
  return methods.make(name, base=base, high=1.15)


def _by_logp(name, settings):
  """A recipe in verl's form of it: sg[what we maximize] * logp.

  verl detaches the ratio and multiplies by logp, the paper and we differentiate
  the ratio: the same gradient, another value. The anchor is here verl's
  `old_log_prob`, which the recipe takes from the sampler.
  """
  made = _bounded(name, settings)
  ours = binding.on(made.surrogate, rollout_logp='old_logp')

  def surrogate(logp, old_logp, advantage):
    objective = ours(logp=logp, old_logp=old_logp, advantage=advantage)
    return jax.lax.stop_gradient(objective) * logp

  return made._replace(surrogate=surrogate)


def _critic(name, settings):
  """The critic of a recipe alone: verl's default is half the square."""
  del settings
  return methods.make(name, value_coef=1.0).terms[0]


def _entropy(settings):
  """verl's entropy is a value, ours a bonus: hence the sign."""
  del settings
  return terms.entropy(-1.0)


OBJECTIVES: dict[str, Rows] = {
  'ppo_clip/token-mean': (
    *_each(_bounded, 'grpo.dapo'),
    *_each(_even, 'grpo.liteppo', 'reinforce.reinforce_pp_baseline'),
  ),
  'ppo_clip/seq-mean-token-mean': _each(_even, 'grpo.grpo'),
  'ppo_clip/seq-mean-token-sum': _each(_bounded, 'grpo.dapo'),
  'ppo_clip/seq-mean-token-sum-norm': _each(_even, 'grpo.dr_grpo'),
  'dapo_clip_higher': _each(_bounded, 'grpo.dapo', 'grpo.grpo_pp'),
  'dual_clip': _each(_capped, 'grpo.dual_clip'),
  'gspo': _each(_bounded, 'sequence.gspo', 'sequence.gspo_token'),
  'gmpo': _each(_bounded, 'sequence.gmpo'),
  'cispo': _each(_bounded, 'grpo.cispo'),
  'sapo': _each(_plain, 'soft.sapo'),
  'reinforce': _each(
    _plain, 'reinforce.reinforce', 'reinforce.rloo', 'reinforce.remax',
    'reinforce.opo',
  ),
  'dppo_tv': _each(_by_logp, 'soft.dppo'),
  'dppo_kl': _each(_by_logp, 'soft.dppo_kl'),
  'ppo_tis_token': _each(_corrected, 'offpolicy.tis'),
}  # fmt: skip
# verl averages these over sequences, as the recipe does, whatever is set.
OWN_MEAN = ('gmpo',)
TERMS: dict[str, Rows] = {
  'value_clipped': _each(_critic, 'ppo.ppo', 'ppo.reft'),
  'entropy_token_mean': (_entropy,),
}


# out/adv/NAME, out/ret/NAME: the credit of recipes. Without a critic verl's
# returns are its advantages, or the rewards to go that these come from.


def _advantage(name: str, **numbers) -> Callable[..., Any]:
  def row(golden):
    chain = compose.steps(methods.make(name, **numbers).advantage)
    return compose.run(chain, compose.visible(_rolled(golden)))['advantage']

  return row


def _returns(name: str, **numbers) -> Callable[..., Any]:
  """What the critic of a recipe aims at."""

  def row(golden):
    chain = methods.make(name, **numbers).terms[0].credit
    return compose.run(chain, compose.visible(_rolled(golden)))['returns']

  return row


def _rolled(golden):
  """verl's GAE reads the values of the rollout from `in/values`."""
  return {**golden.columns, 'old_value': golden.columns['value']}


_OF_GROUPS: dict[str, Rows] = {
  'grpo': (_advantage('grpo.grpo'), _advantage('grpo.dapo')),
  'dr_grpo': (_advantage('grpo.dr_grpo'),),
  'rloo': (_advantage('reinforce.rloo'), _advantage('grpo.grpo_pp')),
  'opo': (_advantage('reinforce.opo'),),
  'grpo_passk': (_advantage('exploration.pass_at_k_scaled'),),
  'reinforce_pp_baseline': (_advantage('reinforce.reinforce_pp_baseline'),),
}
ADVANTAGES: dict[str, Rows] = {
  **_OF_GROUPS,
  'remax': (_advantage('reinforce.remax'),),
  'reinforce_pp': (_advantage('reinforce.reinforce_pp', kl_coef=0),),
  'gae_g1_l0.95_whitened': (
    _advantage('ppo.ppo', kl_coef=0, gamma=1.0, lam=0.95),
    _advantage('ppo.vc_ppo', lam=0.95),
  ),
  'gae_g0.97_l0.9_whitened': (
    _advantage('ppo.ppo', kl_coef=0, gamma=0.97, lam=0.9),
  ),
}
RETURNS: dict[str, Rows] = {
  **_OF_GROUPS,
  'remax': (_advantage('reinforce.reinforce'),),
  'reinforce_pp': (_advantage('reinforce.reinforce'),),
  'gae_g1_l0.95_whitened': (
    _returns('ppo.ppo', kl_coef=0, gamma=1.0, lam=0.95),
  ),
  'gae_g0.97_l0.9_whitened': (
    _returns('ppo.ppo', kl_coef=0, gamma=0.97, lam=0.9),
  ),
}


# out/kl/NAME: kernels. out/corr/NAME: the factor of a recipe.


def _kernel(kernel) -> Callable[..., Any]:
  def row(golden):
    shown = compose.visible(golden.columns)
    made = kernel(**{name: shown[name] for name in binding.read_by(kernel)})
    return jnp.broadcast_to(made, shown['mask'].shape)

  return row


def _factor(setting: str, name: str) -> Callable[..., Any]:
  def row(golden):
    high = golden.settings[setting]['threshold']
    return _kernel(methods.make(name, high=high).corrections[0])(golden)

  return row


DIVERGENCES: dict[str, Rows] = {
  'k1': (_kernel(divergences.k1),),
  'abs': (_kernel(divergences.absolute),),
  'k2': (_kernel(divergences.k2),),
  'k3': (_kernel(divergences.k3),),
  'low_var_kl': (_kernel(divergences.k3_cut),),
}
CORRECTIONS: dict[str, Rows] = {
  'tis_token': (_factor('tis_token', 'offpolicy.tis'),),
  'tis_sequence': (_factor('tis_sequence', 'offpolicy.tis_sequence'),),
}

KINDS: dict[str, dict[str, Rows]] = {
  'loss': {**OBJECTIVES, **TERMS},
  'grad': OBJECTIVES,
  'adv': ADVANTAGES,
  'ret': RETURNS,
  'kl': DIVERGENCES,
  'corr': CORRECTIONS,
}
