"""Worked examples of ratios and surrogates."""

import math

import jax.numpy as jnp
import numpy as np
import worked
import worked_runs as w

from arl import levels, methods
from arl.kernels import advantages, aggregations, monitors, weights
from arl.methods import reinforce

# A policy gradient without a ratio on GRPO's advantage, by token mean.
PLAIN = reinforce.rloo()._replace(
  advantage=advantages.group_normalize, aggregate=aggregations.token_mean
)


def _one(name: str, ratio: float, advantage: float, **numbers) -> w.Row:
  """The loss of a token of this ratio and advantage."""

  def row():
    part = w.given(methods.make(name, **numbers))
    return w.loss(part, w.token(math.log(ratio), advantage))()

  return row


def _both(*rows: w.Row) -> w.Row:
  return w.of(lambda *numbers: np.stack(numbers), *rows)


CLIPS: w.Table = {
  'reinforce.loss': w.loss(PLAIN),
  'ppo.ratio': w.ratio('grpo.dapo'),
  'ppo.loss_token_mean': (
    w.loss('grpo.dapo', low=0.2, high=0.2),
    w.loss('grpo.liteppo'),
    w.loss('grpo.two_sided', low=0.2, high=0.2),
    w.loss('soft.nsr', lambda: w.fixture(noise=jnp.full((4, 3), 0.5)),
           base=w.PPO, low=0.2, high=0.2, width=0.0),
  ),
  'ppo.loss_seq_mean': (w.loss('grpo.grpo'), w.loss('grpo.swe_rl')),
  'ppo.grad': (
    w.grad('grpo.dapo', low=0.2, high=0.2), w.grad('grpo.liteppo')
  ),
  'ppo.clipfrac': w.metric('policy/clip_fraction', 'grpo.liteppo'),
  'dual.single_r5_Am1': _one('grpo.dual_clip', 5.0, -1.0),
  'dual.single_r2_Am1': _one('grpo.dual_clip', 2.0, -1.0),
  'dual.loss_c1.3': w.loss('grpo.dual_clip', low=0.2, high=0.2, cap=1.3),
  'dual.grad_c1.3': w.grad('grpo.dual_clip', low=0.2, high=0.2, cap=1.3),
  'intellect.delta4_r6_Am1': _one('grpo.two_sided', 6.0, -1.0),
  'clip_higher.r1.25_A1': _both(
    _one('grpo.dapo', 1.25, 1.0, low=0.2, high=0.2),
    _one('grpo.dapo', 1.25, 1.0),
  ),
  'grpo.loss_k3_beta.04': (
    w.metric('loss/total', 'grpo.grpo'), w.metric('loss/total', 'grpo.swe_rl')
  ),
  'dr_grpo.loss_T8': w.loss('grpo.dr_grpo', length=8),
  'dapo.loss': (w.loss('grpo.dapo'), w.loss('grpo.starpo_s')),
  'dapo.grad': w.grad('grpo.dapo'),
}  # fmt: skip


def _overlong(length: int) -> w.Row:
  """What DAPO adds to the reward of a sequence of so many tokens."""
  at = w.rows((length,), rewards=[[0.0] * length])
  shaped = w.credit('filters.overlong_shaped', at, name='rewards', first=1)
  return w.of(lambda column: column[0, -1], shaped)


SHAPED: w.Table = {
  'dapo.overlong_16384': _overlong(16384),
  'dapo.overlong_18432': _overlong(18432),
  'dapo.overlong_21000': _overlong(21000),
}

SEQUENCES: w.Table = {
  'gspo.s': (w.ratio('sequence.gspo'), w.ratio('sequence.gspo_token')),
  'gspo.loss_.2': w.loss('sequence.gspo', low=0.2, high=0.2),
  'gspo.grad_.2': w.grad('sequence.gspo', low=0.2, high=0.2),
  'gspo.loss_paper_eps': (
    w.loss('sequence.gspo'), w.loss('sequence.gspo_token')
  ),
  'gspo_token.loss_.2': w.loss('sequence.gspo_token', low=0.2, high=0.2),
  'gspo_token.grad_.2': w.grad('sequence.gspo_token', low=0.2, high=0.2),
  'gspo_seed.w': w.factor('sequence.gspo_reweighted'),
  'gspo_seed.loss': w.loss('sequence.gspo_reweighted', low=0.2, high=0.2),
  'gmpo.loss': w.loss('sequence.gmpo'),
  'gmpo.loss_c.22': w.loss('sequence.gmpo', low=0.22, high=0.22),
  'gmpo.grad_c.22': w.grad('sequence.gmpo', low=0.22, high=0.22),
}  # fmt: skip

# Rewards of +1 and -1.
SIGNS = w.rewarded(1.0, -1.0, -1.0, 1.0)
LIKELIHOODS: w.Table = {
  'cispo.loss': w.loss('grpo.cispo', high=0.28),
  'cispo.grad': w.grad('grpo.cispo', high=0.28),
  'sapo.loss': w.loss('soft.sapo'),
  'sapo.grad': w.grad('soft.sapo'),
  'sapo.gate_r1': w.of(np.negative, _one('soft.sapo', 1.0, 1.0)),
  'topr.seqratio': w.ratio('soft.topr'),
  'topr.loss': w.loss('soft.topr', SIGNS),
  'topr.grad': w.grad('soft.topr', SIGNS),
}


def _gain(logp, rollout_logp):
  """What the probability of a token gained: what DPPO bounds."""
  return jnp.exp(logp) - jnp.exp(rollout_logp)


def _near() -> w.Row:
  """Where DPPO keeps the gradient, advantages being nowhere 0."""
  dropped = w.grad('soft.dppo', low=0.15, high=0.15)
  return w.of(lambda gradient: 1.0 * (gradient != 0), dropped)


REGIONS: w.Table = {
  'dppo.diff': w.kernel(_gain),
  'dppo.mask': _near(),
  'dppo.loss': w.loss('soft.dppo', low=0.15, high=0.15),
}

# Tokens of ratio 1.4, each with its own noise; PPO clips them all.
CELLS = 1_000_000


def _noisy():
  noise = (jnp.arange(CELLS, dtype=float) + 0.5)[None] / CELLS
  column = {'logp': jnp.full_like(noise, math.log(1.4))}
  return {
    **column,
    'old_logp': jnp.zeros_like(noise),
    'rewards': jnp.ones_like(noise),
    'mask': jnp.ones(noise.shape, bool),
    'seq': worked.sequences(1, 1),
    'noise': noise,
  }


def _weights() -> w.Row:
  """The weight of each token, 0 where it is not rescued."""
  part = w.given(methods.make('soft.nsr', low=0.2, high=0.2, width=0.25))
  return w.grad(part, _noisy, times=-CELLS / 1.4)


RESCUED: w.Table = {
  'nsr.p_rescue': w.of(lambda weight: (weight > 0).mean(), _weights()),
  'nsr.exp_weight': w.of(lambda weight: weight.mean(), _weights()),
}


def _words():
  """A token of two words, whose chance went from 0.5 to 0.6."""
  made = w.rows((1,), logp=[[math.log(0.6)]], old_logp=[[math.log(0.5)]])()
  return {**made, 'advantage': jnp.asarray([[1 - 0.4]])}


def _number(function, at) -> w.Row:
  return w.of(lambda column: column[0, 0], w.kernel(function, at))


def _unsmoothed(logp, old_logp):
  """omega as in the example, without the 1e-6 that the kernel adds to rests."""
  logp, old_logp = (jnp.log(jnp.exp(x) + 1e-6) for x in (logp, old_logp))
  return weights.rest_ratio(logp, old_logp)


# The definition has R - mean of the group; the example took GRPO's advantage.
BPO = methods.make('soft.bpo')._replace(advantage=advantages.group_normalize)
BELLMAN: w.Table = {
  'bpo.omega': _number(_unsmoothed, _words),
  'bpo.delta': _number(monitors.bellman_residual, _words),
  'bpo.omega_fx': w.kernel(_unsmoothed),
  'bpo.loss_fx': w.loss(BPO),
}


def _two_turns():
  """Log-ratios of 0.1 and -0.3 in one turn and of 0.25 in the next."""
  made = w.rows((3,), logp=[[0.1, -0.3, 0.25]], old_logp=[[0.0] * 3])()
  turn = np.asarray([[0, 0, 1]], np.int32)
  return {**made, 'turn': levels.level(turn, 2)}


def _of_turns(name: str) -> w.Row:
  return w.of(lambda r: np.asarray(r[0, [0, 2]]), w.ratio(name, _two_turns))


TURNS: w.Table = {
  'steppo_seed.step_ratio': (
    _of_turns('agentic.steppo'), _of_turns('agentic.step_aligned_clip')
  ),
  'turnppo.turn_ratio': _of_turns('agentic.turn_ppo'),
}  # fmt: skip

TABLE = {
  **CLIPS, **SHAPED, **SEQUENCES, **LIKELIHOODS, **REGIONS, **RESCUED,
  **BELLMAN, **TURNS,
}  # fmt: skip
