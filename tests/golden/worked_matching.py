"""Worked examples of distillation over distributions of three tokens."""

import jax
import jax.numpy as jnp
import numpy as np
import worked_runs as w

from arl.kernels import candidates, distillation
from arl.models import teachers

OWN, TEACHER, REFERENCE = (
  np.log(chances)
  for chances in ([0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.4, 0.4, 0.2])
)
SECOND = REFERENCE  # of a second teacher
TAUGHT = 1.0296530140645737  # the teacher's entropy


def _at(taken=0, teacher=TEACHER):
  """One token on policy, whose candidates are all three."""
  both = {
    **dict.fromkeys(('top_logp', 'own_logp', 'old_own_logp'), OWN),
    **dict.fromkeys(('teacher_top_logp', 'teacher_own_logp'), teacher),
  }
  acted = dict.fromkeys(('logp', 'old_logp', 'rollout_logp'), OWN[taken])
  at = w.rows(
    (1,),
    **{name: [[x]] for name, x in acted.items()},
    teacher_logp=[[teacher[taken]]],
    teacher_entropy=[[TAUGHT]],
  )

  def make():
    whole = teachers.compare(
      jnp.asarray([[OWN]]), jnp.asarray([[teacher]]), teachers.DIVERGENCES
    )
    wide = {name: jnp.asarray([[x]]) for name, x in both.items()}
    return {**at(), **wide, **whole, 'noise': jnp.full((1, 1), 0.9)}

  return make


DIVERGENCES: w.Table = {
  'kl_rev': (
    w.term('matched', 'matching.opd_full', _at()),
    w.term('matched', 'matching.opd_top', _at()),
    w.term('matched', 'matching.neohorse', _at()),
    w.term('matched', 'matching.gkd', _at(), beta=1.0),
  ),
  'kl_fwd': (
    w.term('matched', 'matching.kd_full', _at()),
    w.kernel(candidates.forward_kl, _at()),
    w.kernel(candidates.forward_kl_renormalized, _at()),
  ),
  'gkd_half': (
    w.term('matched', 'matching.gkd', _at()),
    w.term('matched', 'matching.gkd_full', _at()),
    w.term('matched', 'matching.opad', _at()),
  ),
  'gkd_01': w.term('matched', 'matching.gkd', _at(), beta=0.1),
  'gkd_0': w.term('matched', 'matching.gkd', _at(), beta=0.0),
  'gkd_1': w.term('matched', 'matching.gkd', _at(), beta=1.0),
  'topk_renorm': w.term('matched', 'matching.opd_top', _at(), k=2),
  'topk_tail': w.term('matched', 'matching.opd_tail', _at(), k=2),
  'thunlp_rew': lambda: candidates.candidate_reward(
    jnp.asarray(OWN), jnp.asarray(TEACHER), k=2
  ),
  'tropd_fkl': w.of(
    np.negative, w.term('outside', 'matching.tropd', _at())
  ),
}  # fmt: skip


def _logits_gradient(kernel):
  """Of a divergence of the candidates, in the policy's logits."""

  def row():
    def loss(logits):
      return kernel(jax.nn.log_softmax(logits), jnp.asarray(TEACHER))

    return jax.grad(loss)(jnp.asarray(OWN))

  return row


def _of_all(logs, theirs):
  return teachers.compare(logs, theirs, frozenset({'reverse_kl'}))['reverse_kl']


def _expected_outside():
  """The mean of TrOPD's objective over its coin, if the first is taken."""
  inside = distillation.trust(jnp.asarray(OWN), jnp.asarray(TEACHER))[0]
  drawn = candidates.forward_kl_partial(jnp.asarray(OWN), jnp.asarray(TEACHER))
  gap = distillation.reverse_kl(jnp.asarray(OWN), jnp.asarray(TEACHER))[0]
  return inside * gap - (1 - inside) * drawn


def _eopd():
  """Both of its divergences, exact."""
  own, theirs = jnp.asarray(OWN), jnp.asarray(TEACHER)
  within = candidates.forward_kl_renormalized(own, theirs)
  return _of_all(own, theirs) + candidates.where_unsure(
    within, jnp.asarray(TAUGHT)
  )


OTHERS: w.Table = {
  'opd_grad': (
    _logits_gradient(_of_all),
    _logits_gradient(candidates.reverse_kl),
    _logits_gradient(candidates.reverse_kl_renormalized),
  ),
  'tropd_exp': _expected_outside,
  'eopd': _eopd,
}


def _debate():
  """Two teachers, weighted by their confidences."""
  own = jnp.asarray(OWN)
  each = [candidates.jsd(own, jnp.asarray(x)) for x in (TEACHER, SECOND)]
  return candidates.debated(jnp.asarray([80.0, 60.0])) @ jnp.stack(each)


# Means over the policy's tokens, against the teacher and the reference.


def _mean(x):
  return np.exp(OWN) @ x


def _cross(name, chances, teacher=TEACHER):
  """The mean of a monitor over tokens that are drawn with these chances."""

  def row():
    seen = [
      w.metric(f'policy/{name}', 'distillation.opd', _at(i, teacher))()
      for i in range(3)
    ]
    return np.asarray(chances) @ np.stack(seen)

  return row


def _beyond(scale):
  """The mean advantage of 'distillation.exopd'."""

  def row():
    own, theirs, ref = map(jnp.asarray, (OWN, TEACHER, REFERENCE))
    return _mean(distillation.extrapolated(own, theirs, ref, scale=scale))

  return row


IDENTITIES: w.Table = {
  'ce_form': _cross('cross_entropy', np.exp(OWN)),
  'ce_at_teacher': _cross('cross_entropy', np.exp(TEACHER)),
  'ce_at_argmax': _cross('cross_entropy', [1.0, 0.0, 0.0]),
  # -KL(policy || teacher) is a KL-regularized return, whatever the reference.
  'id_rhs': (
    _beyond(1.0),
    w.of(np.negative, _cross('teacher_gap', np.exp(OWN))),
  ),
  'id_klref': w.of(np.negative, _beyond(0.0)),
  'id_Er': w.of(np.subtract, _beyond(1.0), _beyond(0.0)),
  'opad_w': lambda: candidates.debated(jnp.asarray([80.0, 60.0])),
  'opad': _debate,
}

TABLE = {**DIVERGENCES, **OTHERS, **IDENTITIES}
