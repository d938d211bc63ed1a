"""Worked examples of imitation: five tokens, of which two were observed."""

import jax.numpy as jnp
import worked_runs as w

LOGP = [-0.1, -0.5, -2.0, -0.3, -0.4]
OBSERVED = [False, False, True, True, False]


def _conversation():
  """All five tokens on the mask."""
  made = w.rows((5,), logp=[LOGP])()
  return {**made, 'observed': jnp.asarray([OBSERVED])}


def _spoken():
  """The three tokens of the policy on the mask."""
  made = _conversation()
  return {**made, 'mask': ~made['observed']}


def _actobs(coef: float) -> w.Row:
  return w.term(
    'imitation', 'supervised.actobs', _conversation, observation_coef=coef
  )


TABLE: w.Table = {
  'sft': w.term('imitation', 'terms.imitation', _spoken),
  'actobs_0': _actobs(0.0),
  'actobs_0.5': _actobs(0.5),
  'actobs_1': _actobs(1.0),
}
