"""Log-ratios of the policy to an anchor policy, at several scales.

A kernel reads columns [B, T] and gives the column `log_ratio` [B, T], constant
on the segments it pools over. The anchor is `old_logp` unless rebound.
"""

import jax

from arl import levels


def token(logp: jax.Array, old_logp: jax.Array) -> jax.Array:
  """One ratio a token: logp - old_logp (PPO, arXiv:1707.06347)."""
  return logp - old_logp


def sequence(
  logp: jax.Array, old_logp: jax.Array, mask: jax.Array, seq: levels.Level
) -> jax.Array:
  """One ratio a sequence: the mean log-ratio of its tokens.

  GSPO, arXiv:2507.18071, eq. 7: the length-normalized sequence likelihood
  ratio. The gradient reaches every token of the sequence equally.
  """
  return levels.mean(logp - old_logp, seq, mask)


def sequence_token(
  logp: jax.Array, old_logp: jax.Array, mask: jax.Array, seq: levels.Level
) -> jax.Array:
  """The sequence's ratio as a value, each token's own gradient.

  GSPO-token, arXiv:2507.18071, eq. 13: sg[s] * pi / sg[pi]. With advantages
  that are constant in a sequence it has GSPO's value and gradient.
  """
  pooled = levels.mean(logp - old_logp, seq, mask)
  stop = jax.lax.stop_gradient
  return stop(pooled) + (logp - stop(logp))


def trajectory(
  logp: jax.Array, old_logp: jax.Array, mask: jax.Array, seq: levels.Level
) -> jax.Array:
  """One ratio a sequence: the sum of the log-ratios of its tokens.

  The likelihood ratio of whole sequences, as in TOPR (arXiv:2503.14286), mirror
  descent of Kimi k1.5 (arXiv:2501.12599) and LPO (arXiv:2605.06139). Its size
  grows with length, so it leaves any fixed band where `sequence` stays.
  """
  return levels.total(logp - old_logp, seq, mask)


def turn(
  logp: jax.Array, old_logp: jax.Array, mask: jax.Array, turn: levels.Level
) -> jax.Array:
  """One ratio a turn: the sum of the log-ratios of its tokens.

  Turn-PPO, arXiv:2512.17008: a turn is one action, so it has the likelihood
  ratio of one. Each token carries it, so let each turn weigh the same: bind the
  `seq` of `aggregations.sequence_mean` to `turn`.
  """
  return levels.total(logp - old_logp, turn, mask)


def turn_mean(
  logp: jax.Array, old_logp: jax.Array, mask: jax.Array, turn: levels.Level
) -> jax.Array:
  """One ratio a turn: the mean log-ratio of its tokens.

  StepPO, arXiv:2604.18401: the length-normalized ratio of GSPO, of a turn.
  """
  return levels.mean(logp - old_logp, turn, mask)
