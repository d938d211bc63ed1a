"""Worked examples of distillation on the policy's own tokens."""

import jax.numpy as jnp
import numpy as np
import worked_runs as w

from arl.kernels import distillation, teaching

OWN, TEACHER = [-1.0, -0.5, -2.0], [-0.8, -1.5, -2.0]
REFERENCE = [-1.2, -0.9]


def _taught(own, teacher, **columns):
  """A sequence on policy, and a teacher's log-probs of its tokens."""
  acted = dict.fromkeys(('logp', 'old_logp', 'rollout_logp'), [own])
  more = {name: [x] for name, x in columns.items()}
  return w.rows((len(own),), **acted, teacher_logp=[teacher], **more)


THREE = _taught(OWN, TEACHER)
TWO = _taught(OWN[:2], TEACHER[:2], ref_logp=REFERENCE)
# Where the policy has 0.7, the teacher has 0.5.
CHANCES = _taught([np.log(0.7)], [np.log(0.5)])
ADVANTAGES = (
  'distillation.opd', 'distillation.privileged',
  'distillation.glm5_cross_stage',
)  # fmt: skip


def _advantages(at) -> tuple[w.Row, ...]:
  return tuple(w.credit(name, at) for name in ADVANTAGES)


def _each(at, of) -> tuple[w.Row, ...]:
  return tuple(w.of(of, row) for row in _advantages(at))


SAMPLED: w.Table = {
  'opd_rkl': _each(THREE, np.ma.negative),
  'opd_adv': _advantages(THREE),
  'opd_mean': (
    w.metric('policy/teacher_gap', 'distillation.opd', THREE),
    w.loss('distillation.opd', THREE),
  ),
  'glm5': _advantages(TWO),
  'exopd_1': w.credit('distillation.exopd', TWO, scale=1.0),
  'exopd_125': (
    w.credit('distillation.exopd', TWO),
    w.credit(
      'distillation.exopd_routed',
      lambda: {
        **TWO(),
        'teacher': jnp.ones((1, 2), int),
        'teacher_logps': jnp.asarray([[[0.0, x] for x in TEACHER[:2]]]),
      },
    ),
  ),
  'tropd_pt': w.kernel(distillation.trust, CHANCES),
  'tropd_on': w.kernel(distillation.reverse_kl, CHANCES),
}

# REOPOLD: teacher less policy, and the entropy of the policy.
GAPS, ENTROPIES = [0.3, -0.7, -2.5, 0.1], [0.1, 0.9, 1.2, 0.4]


def _phase(progress):
  flat = [-1.0] * 4
  at = _taught(flat, [x - 1 for x in GAPS], old_entropy=ENTROPIES)
  return lambda: {**at(), 'progress': jnp.asarray(progress)}


BOUNDED: w.Table = {
  'reop_c': lambda: np.asarray(distillation.floor(0.2)),
  'reop_clip': w.credit('distillation.reopold', _phase(0.0)),
  'reop_explore': w.of(
    np.negative, w.loss('distillation.reopold', _phase(0.0))
  ),
  'reop_refine': w.of(np.negative, w.loss('distillation.reopold', _phase(0.5))),
}


def _in_turns(gaps, turns, **columns):
  """Tokens in turns, of which the teacher finds each so much less likely."""
  own = [0.0] * len(gaps)
  at = _taught(own, [-x for x in gaps], rewards=own)
  ids = w.levels.level(np.asarray([turns], np.int32), max(turns) + 1)
  return lambda: {**at(), 'turn': ids, **columns}


def _turn_mean(progress):
  gaps, turns = [0.1] * 6 + [0.8, 0.4], [0] * 6 + [1] * 2
  at = _in_turns(gaps, turns, progress=jnp.asarray(progress))
  return w.loss('distillation.turnopd', at)


def _of_turns(function, *given, names=('mask', 'seq', 'turn'), **numbers):
  """A function of three turns of one token each."""

  def row():
    at = _in_turns([0.0] * 3, range(3))()
    values = [jnp.asarray([x]) for x in given]
    return w.hidden(function(*values, *(at[n] for n in names), **numbers), at)

  return row


DISTILLED, WEIGHTS = [-0.4, 0.5, 0.1], [14 / 29, 48 / 29, 25 / 29]

TURNS: w.Table = {
  'sod_w': w.credit(
    'distillation.sod',
    _in_turns([0.2, 0.4, 0.1, 0.05], range(4)),
    name='turn_weight',
  ),
  'turn_tok': _turn_mean(0.0),
  'turn_rnd': _turn_mean(1.0),
  'turn': _turn_mean(0.5),
  'atod_s': _of_turns(
    teaching.either, [0.2, 0.9, 0.5], [0.1, 0.6, 0.0], names=()
  ),
  'atod_w': _of_turns(teaching.of_mean_one, [0.28, 0.96, 0.5]),
  'atod_A': _of_turns(
    teaching.annealed, [1.0] * 3, DISTILLED, WEIGHTS, names=(),
    progress=0.3, least=0.0,
  ),
}  # fmt: skip

HINTED = _taught(
  [-0.9, -0.8, -0.2],
  [-0.5, -1.0, -0.2],
  rewards=[0.0, 0.0, 1.0],
  hinted=[1.0, 1.0, 1.0],
)


def _gate():
  """How much of the pull on each token is left."""
  made = w.run('distillation.seed', HINTED, coef=1.0)
  return w.hidden(-3 * made.gradient, made.columns)


# The tokens 2 and 4 reconsider.
PRIVILEGED = [0.2, 0.1, -3.0, 0.05, -1.2]


def _privileged():
  at = _taught([-1.0] * 5, [x - 1 for x in PRIVILEGED])()
  return {
    **at,
    'reconsidering': jnp.asarray([[False, False, True, False, True]]),
  }


def _share(name, count):
  """A mean over the tokens it is of, from one over all five."""
  return w.of(
    lambda mean: 5 / count * mean,
    w.metric(f'policy/{name}', 'distillation.guarded', _privileged),
  )


CONTEXTS: w.Table = {
  'seed_g': _gate,
  'seed_L': w.term('hindsight', 'distillation.seed', HINTED, coef=1.0),
  'priv_all': (
    w.loss('distillation.privileged', _privileged),
    w.of(
      np.negative,
      w.metric('policy/teacher_gap', 'distillation.privileged', _privileged),
    ),
  ),
  'priv_recon': _share('reconsidering', 2),
  'priv_masked': (
    _share('others', 3), w.loss('distillation.guarded', _privileged),
  ),
}  # fmt: skip

TABLE = {**SAMPLED, **BOUNDED, **TURNS, **CONTEXTS}
