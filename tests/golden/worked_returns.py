"""Worked examples of returns, critics and credit by turns."""

import functools

import jax.numpy as jnp
import numpy as np
import worked_runs as w

from arl import methods
from arl.kernels import critics, traces
from arl.methods import terms

# Four tokens, the third an observation whose value must not matter.
OBSERVED = w.rows(
  (4,), rewards=[[0, 0, 0, 1.0]], old_value=[[0.5, 0.6, 9.9, 0.8]]
)


def _observed():
  return {**OBSERVED(), 'mask': jnp.asarray([[True, True, False, True]])}


def _target(name: str, **numbers) -> w.Row:
  """What the critic of a recipe learns."""
  return w.credit(name, _observed, name='returns', term=1, **numbers)


def _lam(name: str, length: int, value: float = 0.0, **numbers) -> w.Row:
  """The lam of a recipe, its advantage one token before a reward of 1.

  All values are the same and, as an advantage is, 0.
  """
  at = w.rows(
    (length,),
    rewards=[[0.0] * (length - 1) + [1.0]],
    old_value=[[value] * length],
  )
  estimate = w.credit(name, at, **numbers)
  return w.of(lambda column: column[0, -2], estimate)


ESTIMATES: w.Table = {
  'gae.adv': (
    w.credit('ppo.ppo', _observed, first=1, kl_coef=0),
    w.credit('ppo.vc_ppo', _observed, first=1),
  ),
  'gae.ret': _target('ppo.ppo', kl_coef=0),
  'gae.lam1_adv': w.credit('ppo.starpo', _observed, first=1),
  'gae.lam1_ret': (
    _target('ppo.starpo'), _target('ppo.vc_ppo'), _target('ppo.vapo'),
    w.credit('ppo.mc_value', _observed, name='returns'),
  ),
  # Before vapo and sao whiten; for bpco a score of -1e12 is a value of 0.
  'gae.lam_len_100': (_lam('ppo.vapo', 100, first=1),
                      _lam('ppo.sao', 100, first=1)),
  'gae.lam_len_1000': _lam('ppo.vapo', 1000, first=1),
  'gae.lam_len_10': _lam('ppo.vapo', 10, first=1),
  'gae.lam_bpco_100': _lam('ppo.bpco', 100, value=-1e12),
  'vapo.lam3': (
    _lam('ppo.vapo', 3, first=1, alpha=0.4), _lam('ppo.bpco', 3, value=-1e12)
  ),
  'vapo.policy_adv': w.credit('ppo.vapo', _observed, first=1, alpha=0.4),
  'vapo.critic_target': _target('ppo.vapo', alpha=0.4),
}  # fmt: skip

# The samples of reward 1 are those that are imitated, the first and the last.
VAPO = functools.partial(w.term, 'positive', 'ppo.vapo')
RIGHT = w.rewarded(1.0, 0.0, 0.0, 1.0)
LIKELIHOOD: w.Table = {
  'vapo.lm_nll': VAPO(RIGHT, positive_coef=1.0),
  # The example takes GRPO's advantage of other rewards for the policy.
  'vapo.total': w.of(np.add, w.loss('grpo.dapo'), VAPO(RIGHT)),
}


def _turns():
  """Three turns of a token."""
  made = w.rows((3,), rewards=[[0.1, 0, 1.0]], old_value=[[0.4, 0.5, 0.7]])()
  return {**made, 'turn': w.each_token(1, 3)}


BY_TURN: w.Table = {
  'step.gae_1_1': w.credit('agentic.steppo', _turns, first=1),
  'step.turnppo_.99_.9': w.credit('agentic.turn_ppo', _turns),
  'step.whitened': (
    w.credit('agentic.steppo', _turns),
    w.credit('agentic.step_aligned_clip', _turns),
  ),
}


def _off_policy():
  """Ratios of 1.5, 0.5 and 1.2."""
  return w.rows(
    (3,),
    rewards=[[0, 0, 1.0]],
    old_value=[[0.5, 0.6, 0.8]],
    old_logp=[np.log([1.5, 0.5, 1.2]).tolist()],
    rollout_logp=[[0.0] * 3],
    q=[[0.55, 0.5, 0.9]],
    expected_q=[[0.5, 0.6, 0.8]],
  )()


OFF_POLICY: w.Table = {
  'vtrace.vs': w.credit('ppo.vtrace', _off_policy, name='returns'),
  'vtrace.pg_adv': w.credit('ppo.vtrace', _off_policy),
  'retrace.q': w.kernel(traces.retrace, _off_policy, gamma=1.0),
}

# Critics whose returns are given: they are the rewards.
GIVEN = (('returns', lambda rewards: rewards),)
CRITIC = w.rows(
  (2,), value=[[0.5, 0.9]], old_value=[[0.2, 0.8]], rewards=[[1.0, 0.0]]
)


def _classified():
  """One token with logits over five bins on [0, 1], and a return of 0.55."""
  made = w.rows((1,), rewards=[[0.55]], old_value=[[0.0]])()
  logits = jnp.asarray([[[0.1, 0.2, 0.7, 0.4, -0.3]]])
  return {**made, 'value_logits': logits, 'old_value_logits': logits}


def _shares(target) -> w.Row:
  """Of five bins; sigma is 0.15, which is 0.75 bins."""
  return lambda: target(jnp.asarray(0.55 * 5), 5)


def _critic(name: str) -> w.Part:
  """The critic of a recipe, its returns given."""
  term = methods.make(name, value_coef=1.0).terms[0]
  return term._replace(credit=GIVEN, monitors=())


TWO_HOT = terms.value(
  functools.partial(
    critics.categorical, low=0.0, high=1.0, target=critics.two_hot
  ),
  1.0,
  credit=GIVEN,
)
CRITICS: w.Table = {
  'value.clipped': w.term('value', _critic('ppo.ppo'), CRITIC),
  'cat.hlgauss_cdf': _shares(critics.hl_gauss),
  'cat.hlgauss_pdf': _shares(critics.gauss_at_centers),
  'cat.expect_cdf': w.of(
    lambda shares: shares @ critics.support(0.0, 1.0, 5),
    _shares(critics.hl_gauss),
  ),
  'cat.twohot': _shares(critics.two_hot),
  'cat.ce_hl': w.term('value', _critic('ppo.categorical'), _classified),
  'cat.ce_twohot': w.term('value', TWO_HOT, _classified),
  'cat.value': w.of(
    lambda column: column[0, 0],
    w.credit('ppo.categorical', _classified, name='old_value', first=1),
  ),
}

TABLE = {**ESTIMATES, **LIKELIHOOD, **BY_TURN, **OFF_POLICY, **CRITICS}
