"""Worked examples of preferences."""

import functools

import jax.numpy as jnp
import numpy as np
import worked_runs as w

from arl import methods
from arl.kernels import advantages
from arl.methods import compose, grpo
from arl.rollout import trees

# Two answers of 4 and 5 tokens, the first preferred; sums of -10 and -11, of
# the reference -12 and -10.


def _pair(sums, ref_sums, lengths=(4, 5)):
  """Two answers whose tokens share the sums evenly."""

  def even(each):
    return [[s / n] * n for s, n in zip(each, lengths)]

  rewards = [[0.0] * (n - 1) + [r] for n, r in zip(lengths, (1.0, 0.0))]
  return w.rows(
    lengths, logp=even(sums), ref_logp=even(ref_sums), rewards=rewards
  )


PAIR = _pair((-10.0, -11.0), (-12.0, -10.0))
STEP = _pair((-3.0, -2.5), (-3.4, -2.0))
BARE = _pair((-10.0, -12.0), (0.0, 0.0), (5, 4))
ODDS = _pair((-1.0, -2.0), (0.0, 0.0), (2, 2))


def _collected(at):
  """The batch, whose reference is what sampled it."""

  def make():
    made = at()
    ranked = jnp.ones_like(made['mask'])
    return {**made, 'rollout_logp': made.pop('ref_logp'), 'ranked': ranked}

  return make


COLLECTED = _collected(PAIR)


def _slope(gradient):
  """dL/dh, the gradient in a token of the preferred answer."""
  return gradient[0, 0]


def _odds_term(total, alone):
  return (total - alone) / 0.1


def _log_odds(term):
  """h, from log(1 + exp(-h))."""
  return -np.log(np.expm1(term))


ODDS_TERM = w.of(
  _odds_term,
  w.loss('preference.orpo', ODDS),
  w.loss('preference.orpo', ODDS, coef=0.0),
)
PAIRED: w.Table = {
  'dpo': (
    w.loss('preference.dpo', PAIR),
    w.loss('preference.agent_q', COLLECTED),
  ),
  'dpo_dh': (
    w.of(_slope, w.grad('preference.dpo', PAIR)),
    w.of(_slope, w.grad('preference.agent_q', COLLECTED)),
  ),
  'cdpo': w.loss('preference.dpo_smoothed', PAIR, smoothing=0.1),
  'robust': w.loss('preference.dpo_robust', PAIR, flipped=0.1),
  'ipo_sum': w.loss('preference.ipo_summed', PAIR),
  'ipo_avg': w.loss('preference.ipo', PAIR),
  'simpo': w.loss('preference.simpo', BARE),
  'stepdpo': w.loss('preference.step_dpo', STEP),
  'orpo_lo': w.of(_log_odds, ODDS_TERM),
  'orpo_or': ODDS_TERM,
  'orpo': w.loss('preference.orpo', ODDS),
}

# KTO: a good answer of log-ratio 2, a bad one of -1; two that are mismatched.


def _answers(mismatched):
  log_ratios = (2.0, -1.0, *mismatched)

  def make():
    made = w.rows(
      (1, 1, 1, 1),
      logp=[[x] for x in log_ratios],
      old_logp=[[x] for x in log_ratios],
      ref_logp=[[0.0]] * 4,
      rewards=[[1.0], [0.0], [1.0], [1.0]],
    )()
    mark = jnp.asarray([[False], [False], [True], [True]])
    return {**made, 'mismatched': mark}

  return make


APART, BELOW = _answers((0.5, -0.1)), _answers((-0.5, -0.1))


def _first(column):
  return column[0, 0]


def _of(index: int) -> w.Row:
  """The loss of one answer."""

  def row():
    columns, made = APART(), methods.make('preference.kto')
    (term,) = compose.terms_of(made)
    shown = compose.visible(columns)
    steps = (*term.credit, *term.loss)
    return compose.run(steps, shown)['loss'][index, 0]

  return row


SINGLE: w.Table = {
  'kto_z0': w.of(_first, w.credit('preference.kto', APART, name='reference')),
  'kto_z0clamp': w.of(
    _first, w.credit('preference.kto', BELOW, name='reference')
  ),
  'kto_d': _of(0),
  'kto_u': _of(1),
  'kto': w.loss('preference.kto', APART),
}

# Pair-GRPO on a group of four, and on the two of a pair.
FOUR = w.rewarded(0.9, 0.4, 0.4, 0.1)
TWO = w.rows(
  (1, 1), logp=[[0.05], [-0.10]], old_logp=[[0.0]] * 2,
  rewards=[[1.0], [0.0]], ref_logp=[[0.0]] * 2,
)  # fmt: skip


# UCPO: mean log-probs of three correct answers and a wrong one.
RIGHT = w.rows(
  (1, 1, 1, 1), logp=[[-0.2], [-0.4], [-1.0], [-0.5]],
  old_logp=[[-0.2], [-0.4], [-1.0], [-0.5]],
  rewards=[[1.0], [1.0], [1.0], [0.0]],
)  # fmt: skip


def _sequences(column):
  return np.asarray(column[:, 0])


# UCPO's code adds 1e-8 to the deviation.
CLOSE = grpo.grpo()._replace(
  advantage=functools.partial(advantages.group_normalize, eps=1e-8)
)
UCPO = w.of(_sequences, w.credit('exploration.ucpo', RIGHT, base=CLOSE))
BASE = w.of(_sequences, w.credit(CLOSE, RIGHT))
GROUPS: w.Table = {
  'pairgrpo_soft': w.of(_sequences, w.credit('preference.pair_wins', FOUR)),
  'pairgrpo_hard': w.loss('preference.pair_stepped', TWO),
  'ucpo_base': BASE,
  'ucpo': UCPO,
  'ucpo_mass': w.of(lambda a, b: a.sum() - b.sum(), UCPO, BASE),
}

# A state of a search: what three actions are worth, and their upper bounds.
MEASURED, RANKED = np.array([0.8, 0.2, 0.5]), np.array([0.6, 0.4, 0.5])


def _worth():
  return trees.blend(MEASURED, RANKED, 0.5)


SEARCH: w.Table = {
  'agentq_q': _worth,
  'agentq_ucb': w.of(
    lambda worth: trees.upper(worth, np.array([5, 3, 2]), 1.0), _worth
  ),
}

TABLE = {**PAIRED, **SINGLE, **GROUPS, **SEARCH}
