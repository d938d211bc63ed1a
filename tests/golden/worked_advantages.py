"""Worked examples of aggregations, rewards and advantages without a critic."""

import functools

import jax.numpy as jnp
import numpy as np
import worked
import worked_runs as w

from arl.kernels import advantages, aggregations, groups, returns
from arl.methods import grpo, terms

RIGHT_ONCE = w.rewarded(1.0, 0.0, 0.0, 0.0)
THREE_RIGHT = w.rewarded(1.0, 1.0, 0.0, 1.0)


def _imitation(aggregate) -> w.Row:
  return w.term('imitation', terms.imitation(aggregate=aggregate))


def _baseline(name: str) -> w.Row:
  """What a recipe subtracts from the first sequence's reward."""
  return w.of(lambda column: worked.REWARDS[0] - column[0, 0], w.credit(name))


# The worked sequences; l = -logp.
AGGREGATIONS: w.Table = {
  'agg.x': w.kernel(lambda logp: logp),
  'agg.token_mean': w.term('imitation', 'terms.imitation'),
  'agg.seq_mean': _imitation(aggregations.sequence_mean),
  'agg.seq_sum': _imitation(aggregations.sequence_sum),
  'agg.const': _imitation(functools.partial(aggregations.constant, length=8)),
}

POPULATION = functools.partial(advantages.group_normalize, ddof=0, eps=1e-8)
ADVANTAGES: w.Table = {
  'adv.grpo_ddof1': (
    w.credit('grpo.grpo'), w.credit('grpo.dapo'), w.credit('sequence.gspo'),
    w.credit('sequence.gmpo'), w.credit('soft.sapo'),
  ),
  # Examples by the population's deviation, which only the kernel has.
  'adv.grpo_ddof0': w.kernel(POPULATION),
  'adv.grpo_bin_1of4': w.kernel(POPULATION, RIGHT_ONCE),
  'adv.grpo_two_groups': w.credit('grpo.grpo', w.two_groups),
  'adv.dr_grpo': (w.credit('grpo.dr_grpo'), w.credit('regression.kimi_omd')),
  'adv.rloo': (w.credit('reinforce.rloo'), w.credit('grpo.grpo_pp')),
  'adv.rloo_two_groups': w.credit('reinforce.rloo', w.two_groups),
  'adv.lite': w.credit('grpo.liteppo', w.two_groups),
  'adv.remax': w.credit('reinforce.remax'),
  'adv.opo_baseline': _baseline('reinforce.opo'),
  'bon.opo_adv': w.credit('reinforce.opo'),
  'passk.adv': w.credit('exploration.pass_at_k'),
  'adv.signbalance_1of4': w.credit('exploration.signbalance', RIGHT_ONCE),
  'rew.kl_in_reward': (
    w.credit('ppo.penalized', name='rewards', coef=0.1),
    w.credit('reinforce.reinforce_pp', name='rewards', kl_coef=0.1),
  ),
  'adv.reinforce_returns': w.credit(
    'reinforce.reinforce_pp', first=2, kl_coef=0.1
  ),
  'adv.reinforce_pp': w.credit('reinforce.reinforce_pp', kl_coef=0.1),
  'adv.reinforce_pp_baseline': w.credit('reinforce.reinforce_pp_baseline'),
}  # fmt: skip

SIGMA = groups.deviation(1, 4)
NORMALIZED = grpo.grpo(kl_coef=0)._replace(advantage=POPULATION)


def _mean_size(part) -> w.Row:
  """The mean |advantage| of the four sequences."""
  return w.of(lambda a: np.abs(a[:, 0]).mean(), w.credit(part, RIGHT_ONCE))


GROUP_SIZES: w.Table = {
  'gsi.sigma': lambda: SIGMA,
  'gsi.mean_abs_dr': _mean_size('grpo.dr_grpo'),
  'gsi.2sigma2': lambda: 2 * SIGMA**2,
  'gsi.mean_abs_grpo': _mean_size(NORMALIZED),
  'gsi.2sigma': lambda: 2 * SIGMA,
  'gsi.discard_p0.25_G4': lambda: groups.chance_unanimous(0.25, 4),
  'gsi.min_group_eps0.05_p0.5': lambda: groups.smallest_size(0.5, 0.05),
}

# UCPO's code adds 1e-8 to the deviation, which shows in these digits; the
# recipe's base adds GRPO's 1e-6.
CLOSE = grpo.grpo(kl_coef=0)._replace(
  advantage=functools.partial(advantages.group_normalize, eps=1e-8)
)


def _ucpo(**numbers) -> w.Row:
  return w.credit('exploration.ucpo', THREE_RIGHT, base=CLOSE, **numbers)


def _right(column):
  return np.asarray(column[[0, 1, 3], 0])


def _chances(column):
  """q, from the advantage with tau = 1, which goes as 1 / q."""
  inverse = 1 / _right(column)
  return inverse / inverse.sum()


def _shares(column, base):
  """w, from the advantage n w A."""
  return _right(column) / _right(base) / 3


BASE = w.credit(CLOSE, THREE_RIGHT)


def _graded():
  """One token a sequence: 1 for the answer, 1 for the form, and a share."""
  return w.rows(
    (1,) * 4,
    rewards=[[2.0], [1.0], [0.0], [2.0]],
    process_rewards=[[0.5], [1.0], [0.0], [0.25]],
  )()


def _to_go(column):
  """The return-to-go of shaped rewards, of which the recipe then compares."""
  where = {'mask': jnp.ones(column.shape, bool), 'seq': worked.sequences(1, 3)}
  return returns.reward_to_go(jnp.asarray(column.data), **where)[0]


# Two valid steps and a right answer, a token each.
THREE_STEPS = w.rows((3,), rewards=[[0, 0, 1]], process_rewards=[[1, 1, 0]])

MOVED: w.Table = {
  'ucpo.base': BASE,
  'ucpo.q': w.of(_chances, _ucpo(tau=1.0)),
  'ucpo.w': w.of(_shares, _ucpo(), BASE),
  'ucpo.adv': _ucpo(),
  'eapo.w': w.of(
    np.ma.divide, w.credit('exploration.eapo'), w.credit('grpo.dapo')
  ),
  'eapo.loss': w.loss('exploration.eapo', base=w.PPO),
  'step_grpo.R': w.credit('agentic.step_grpo', _graded, name='rewards'),
  'step_grpo.adv': w.credit('agentic.step_grpo', _graded),
  'step_grpo.seed_returns': w.of(
    _to_go,
    w.credit(
      'agentic.step_grpo_return_to_go', THREE_STEPS, name='rewards', first=1
    ),
  ),
}

TABLE = {**AGGREGATIONS, **ADVANTAGES, **GROUP_SIZES, **MOVED}
