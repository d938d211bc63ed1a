"""Worked examples of target distributions and of weights of tokens."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import worked
import worked_runs as w

from arl import kinds, levels, methods
from arl.kernels import likelihoods, regressions


def _first(column):
  """The number of each sequence, from its first token."""
  return np.asarray(column[:, 0])


# Kimi k1.5: the ascent coefficient is -G / (2 tau) of the gradient.
TAU, SIZE = 0.5, 4


def _samples():
  """The worked sequences, none of which is a demonstration."""
  return w.fixture(demonstrated=jnp.zeros((4, 3), bool))


KIMI: w.Table = {
  'kimi.seq_logratio': w.log_ratio('regression.kimi_omd'),
  'kimi.loss_tau.5': (
    w.loss('regression.kimi_omd', tau=TAU),
    w.loss('regression.kimi_k2', _samples, tau=TAU),
  ),
  'kimi.grad_tau.5': w.grad('regression.kimi_omd', tau=TAU),
  'kimi.k15_surrogate_grad_coef': w.grad(
    'regression.kimi_omd', times=-SIZE / (2 * TAU), tau=TAU
  ),
}


# LPO: the recipe's tau is in deviations of the group.


def _deviation(centered, scaled):
  return centered[0, 0] / scaled[0, 0]


def _shares(gradient, target):
  """P, from dL/ds = P - w."""
  return gradient + np.exp(target)


LISTS: w.Table = {
  'lpo.tau': w.of(
    _deviation, w.credit('regression.lpo_center', first=1),
    w.credit('regression.lpo', first=1),
  ),
  'lpo.s': w.log_ratio('regression.lpo'),
  'lpo.w_onpolicy': w.of(
    np.ma.exp, w.credit('regression.lpo', name='target')
  ),
  'lpo.P': w.of(
    _shares, w.grad('regression.lpo'),
    w.credit('regression.lpo', name='target'),
  ),
  'lpo.fwd_kl': (
    w.loss('regression.lpo'), w.loss('regression.lpo_center', tau=0.384057)
  ),
  'lpo.fwd_coef': w.grad('regression.lpo'),
  'lpo.rev_kl': w.loss('regression.lpo_reverse'),
  'lpo.rev_coef': w.grad('regression.lpo_reverse'),
}  # fmt: skip

# ConSPO: the first and the last sequence are correct, the run is at its end.
RIGHT = w.rewarded(1.0, 0.0, 0.0, 1.0)


def _mean(logp, mask, seq):
  return levels.mean(logp, seq, mask)


def _of_sequences(gradient):
  """The gradient in the mean log-prob of a sequence."""
  return np.asarray(gradient[:, 0]) * worked.LENGTHS


CONTRASTS: w.Table = {
  'conspo.s': w.kernel(_mean),
  'conspo.loss_m.2_t.5': w.loss('regression.conspo', RIGHT),
  'conspo.loss_m0_t.5': w.loss('regression.conspo', RIGHT, margin=0.0),
  'conspo.coef_per_seq': w.of(
    _of_sequences, w.grad('regression.conspo', RIGHT)
  ),
}

# Tsallis: P = 0.2; and three samples of a token, each followed by a token of
# the answer that is 0.5, 0.1 and 0.05 likely.
ANSWERED = (0.5, 0.1, 0.05)


def _tsallis(q: float) -> w.Row:
  return lambda: likelihoods.tsallis_loss(jnp.log(0.2), q=q)


def _amplification():
  """-dl/dP, over that of q = 0, which is 1."""
  loss = lambda p: likelihoods.tsallis_loss(jnp.log(p), q=0.75)
  return -jax.grad(loss)(0.2)


def _answers():
  logp = [[-1.0, math.log(w)] for w in ANSWERED]
  made = w.rows((2, 2, 2), logp=logp, old_logp=logp, rewards=[[0.0] * 2] * 3)()
  return {**made, 'answer': jnp.asarray([[False, True]] * 3)}


GARL = w.grad('regression.garl', _answers, times=-1.0)
PAFT = w.of(
  lambda a: np.asarray(a[:, 0]), w.credit('regression.paft', _answers)
)
CONTINUUM: w.Table = {
  'tsallis.loss_q.75_P.2': _tsallis(0.75),
  'tsallis.loss_q0': _tsallis(0.0),
  'tsallis.loss_q1': _tsallis(1.0),
  'tsallis.amp': _amplification,
  'tsallis.garl_amp': w.of(lambda g: 3 * g[0, 1] / ANSWERED[0], GARL),
  'tsallis.garl_coef': w.of(_first, GARL),
  'tsallis.paft_resample_p': w.of(lambda a: a / a.sum(), PAFT),
  'tsallis.paft_scale': w.of(lambda a: a.mean(), PAFT),
}


# Pair-GRPO: ratios of 1.3 and 0.9; three candidates of 0.3, 0.5 and 0.2, the
# first preferred to the second.
TWO = w.rows(
  (1, 1), logp=[[math.log(1.3)], [math.log(0.9)]], old_logp=[[0.0]] * 2,
  rewards=[[1.0], [0.0]],
)  # fmt: skip
OLD = (0.3, 0.5, 0.2)


def _candidates():
  logp = [[math.log(p)] for p in OLD]
  made = w.rows(
    (1, 1, 1), logp=logp, old_logp=logp, rewards=[[1], [0], [0.5]]
  )()
  return {**made, 'iteration': jnp.asarray(0)}


# The recipe moves mass between ratios; the example between likelihoods.
HARD = methods.make('regression.pair_hard')._replace(
  surrogate=regressions.pair_hard
)


def _moved(loss, gradient):
  """q, from KL(p || q) = loss and its gradient p (log(p / q) - loss)."""
  p = np.asarray(OLD)
  return p * np.exp(-(np.asarray(gradient[:, 0]) / p + loss))


PAIRS: w.Table = {
  'pair.soft_value': w.of(
    np.negative, w.loss('regression.pair_soft', TWO, kl_coef=0.0)
  ),
  'pair.hard_target': w.of(
    _moved, w.loss(HARD, _candidates), w.grad(HARD, _candidates)
  ),
  'pair.hard_kl_at_old': w.loss(HARD, _candidates),
  'pair.hard_grad_logits_at_old': w.grad(HARD, _candidates),
}


# Weights of tokens.


def _structured():
  """A token of each kind but two of thinking, after 100 batches."""
  kind = (
    kinds.FORMAT, kinds.THINK, kinds.THINK, kinds.NAME, kinds.ARGUMENTS,
    kinds.OTHER,
  )  # fmt: skip
  return {
    **w.rows((6,), rewards=[[0.0] * 6])(),
    'kind': jnp.asarray([kind], jnp.int32),
    'iteration': jnp.asarray(100),
  }


FEATURES = ((1.0, 0.0), (0.2, 0.9), (0.1, 1.0), (-0.8, 0.3))


def _features():
  """Four tokens, two of either side."""
  made = w.rows((1,) * 4, rewards=[[1.0], [1.0], [-1.0], [-1.0]])()
  return {**made, 'features': jnp.asarray(FEATURES)[:, None]}


WEIGHT = w.credit('tokens.delta', _features, name='importance', rounds=0)


def _alpha(weight):
  """How clearly a token is on its side, from its weight 0.8 + 0.4 alpha."""
  return (np.asarray(weight[:, 0]) - 0.8) / 0.4


def _gap(weight):
  """The gap of a token: no kernel gives it, only its part of the mean size.

  alpha is the sigmoid of that part; the mean size is written out.
  """
  v = np.asarray(FEATURES)
  centers = v[:2].mean(0), v[2:].mean(0)
  far, near = (np.square(v - c).sum(1) for c in centers)
  size = np.abs(far - near).reshape(2, 2).mean(1)
  alpha = _alpha(weight)
  return np.log(alpha / (1 - alpha)) * size.repeat(2)


WEIGHTS: w.Table = {
  'rest.w': w.credit('tokens.rest', _structured, name='importance'),
  'delta.gap': w.of(_gap, WEIGHT),
  'delta.alpha': w.of(_alpha, WEIGHT),
  'delta.lambda': WEIGHT,
}

TABLE = {**KIMI, **LISTS, **CONTRASTS, **CONTINUUM, **PAIRS, **WEIGHTS}
