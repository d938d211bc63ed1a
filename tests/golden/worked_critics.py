"""Worked examples of critics and of reward models."""

import jax
import jax.numpy as jnp
import numpy as np
import worked_runs as w

from arl import methods
from arl.kernels import critics, returns, reward_models
from arl.rollout import vine

# Value losses and targets.

CLIPPED = w.kernel(
  critics.value_clip,
  w.rows(
    (2,),
    value=[[0.9, 0.2]], old_value=[[0.5, 0.3]], returns=[[1.0, 0.0]],
  ),
  clip=0.2,
)  # fmt: skip


def _tokens(column):
  return np.asarray(column[0])


def _lam(length: int) -> float:
  """The advantage one token before a reward of 1, all values being 0."""
  made = w.rows(
    (length,),
    rewards=[[0.0] * (length - 1) + [1.0]],
    old_value=[[0.0] * length],
  )()
  advantage = returns.length_adaptive_gae(
    made['rewards'], made['old_value'], made['mask'], made['seq'],
    gamma=1.0, alpha=0.05,
  )  # fmt: skip
  return advantage[0, -2]


def _masses(target, y: float = 0.3) -> w.Row:
  return lambda: target(jnp.asarray(y * 5), 5)


def _mean(shares):
  return shares @ critics.support(0.0, 1.0, 5)


def _uniform():
  """The loss of a critic that says nothing."""
  return critics.categorical(
    jnp.zeros((1, 1, 5)), jnp.asarray([[0.3]]), low=0.0, high=1.0
  )[0, 0]


VALUES: w.Table = {
  'vloss_tok': w.of(_tokens, CLIPPED),
  'vloss': w.of(lambda column: column.mean(), CLIPPED),
  'vapo_lam': lambda: np.asarray([_lam(n) for n in (10, 40, 100, 1000)]),
  'hlg': _masses(critics.hl_gauss),
  'hlg_mean': w.of(_mean, _masses(critics.hl_gauss)),
  'hlg_ce': _uniform,
  'hlg_edge': w.of(_mean, _masses(critics.hl_gauss, 1.0)),
  'hlg_pdf': _masses(critics.gauss_at_centers),
  'twohot': _masses(critics.two_hot, 0.35),
}

# BPCO: the score is the tangent of what its value is.


def _unbounded(*values: float) -> list[list[float]]:
  return [[float(np.tan(np.pi * (v - 0.5))) for v in values]]


def _bounded(at) -> w.Row:
  return w.credit('ppo.bpco', at, name='old_value', first=1)


SQUASHED = w.rows((3,), rewards=[[0.0, 0.0, 1.0]], old_value=[[-2.0, 0.0, 2.0]])
KNOWN = w.rows(
  (3,), rewards=[[0.0, 0.0, 1.0]], old_value=_unbounded(0.2, 0.5, 0.8)
)
# Turns of one token: the values of their states are given.
TURNS = (0.5, 0.75, 0.25)


def _by_turn():
  made = w.rows(
    (3,), rewards=[[0.0, 0.0, 1.0]], turn_value=[list(TURNS)],
    old_value=[[0.0] * 3],
  )()  # fmt: skip
  return {**made, 'turn': w.each_token(1, 3)}


# CodeRL: a wrong answer, where the greedy program failed.


def _program():
  made = w.rows(
    (2,), rewards=[[0.0, -0.3]], baseline=[[-0.6, -0.6]],
    logp=[[-1.0, -1.0]],
  )()  # fmt: skip
  chances = [[0.1, 0.2, 0.6, 0.1], [0.3, 0.2, 0.4, 0.1]]
  logits = jnp.log(jnp.asarray([chances]))
  return {**made, 'old_value_logits': logits, 'value_logits': logits}


def _weights(factor, advantage):
  return np.asarray((factor * advantage)[0])


OUTCOMES: w.Table = {
  'bpco_V': w.of(_tokens, _bounded(SQUASHED)),
  'bpco_A': w.of(_tokens, w.credit('ppo.bpco', KNOWN)),
  'vine': w.of(_tokens, w.credit('critics.vineppo', _by_turn)),
  'coderl': w.of(
    _weights,
    w.credit('critics.coderl', _program, name='factor'),
    w.credit('critics.coderl', _program),
  ),
}

# Reward models.


def _scores(*scores: float):
  """A pair of one token each, the first preferred."""
  return w.rows(
    (1,) * len(scores),
    value_after=[[x] for x in scores],
    rewards=[[1.0 - i] for i in range(len(scores))],
  )


def _pairs(**numbers) -> w.Row:
  return w.term('pairs', 'reward.bt', _scores(1.5, 0.3), **numbers)


def _two_pairs():
  """The mean over two pairs, whose margins are 0.4 and -0.2."""
  each = [
    w.run('reward.bt', _scores(*pair)).loss for pair in ((0.4, 0.0), (0.0, 0.2))
  ]
  return np.mean(each)


def _steps(p=(0.9, 0.6, 0.3), y=(1.0, 1.0, 0.0)):
  """Three turns of one token."""
  made = w.rows(
    (3,), value_after=[[float(np.log(x / (1 - x))) for x in p]],
    process_rewards=[list(y)], rewards=[[0.0, 0.0, 1.0]],
  )()  # fmt: skip
  return {**made, 'turn': w.each_token(1, 3)}


def _failed():
  return {**_steps(), 'rewards': jnp.zeros((1, 3))}


def _discounted(at) -> w.Row:
  part = methods.make('reward.agent_prm')
  return w.of(_tokens, w.credit(part, at, name='target'))


def _completions():
  succeeded = np.arange(8) < 3
  return np.asarray([vine.hard(succeeded), vine.soft(succeeded)])


def _logits():
  logits = jnp.asarray([[2.0, 1.0, 0.0], [1.0, 0.5, 0.0]])
  return logits[jnp.arange(2), jnp.asarray([0, 1])], logits


def _endogenous():
  chosen, logits = _logits()
  return reward_models.endogenous(chosen, jax.nn.logsumexp(logits, axis=-1))


def _likelihood_and_value():
  chosen, logits = _logits()
  total = jax.nn.logsumexp(logits, axis=-1)
  return jnp.sum(chosen - total) + total[0]


MODELS: w.Table = {
  'bt': _pairs(),
  'bt_m': _pairs(margin=1.0, centering=0.01),
  'corlhf': _two_pairs,
  'prm_bce': w.term('steps', 'reward.prm', _steps),
  'aprm': _discounted(_steps),
  'aprm_mean': w.of(
    lambda won, lost: (won[0] + lost[0]) / 2,
    _discounted(_steps),
    _discounted(_failed),
  ),
  'mshep': _completions,
  'endo_r': _endogenous,
  'endo_sum': w.of(jnp.sum, _endogenous),
  'endo_check': _likelihood_and_value,
}

TABLE = {**VALUES, **OUTCOMES, **MODELS}
