"""Columns from forward passes without gradient, once a rollout batch."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from arl import columns as columns_lib
from arl import types
from arl.kernels import divergences
from arl.models import teachers
from arl.rollout import decoding
from arl.train import forward as forward_lib
from arl.train import routing, sharding

_SCORED = columns_lib.filled_by(columns_lib.SCORE)
_REROUTED = 'rerouted'
# What a teacher fills -> what its head calls that.
OF_TEACHER = {
  'teacher_logp': 'logp',
  'teacher_entropy': 'entropy',
  'teacher_ids': 'likeliest',
  'teacher_top_logp': 'likeliest_logp',
  'teacher_own_logp': 'own_logp',
  'teacher_logps': 'logps',
}
# What cannot be without a teacher, in a run or outside of it.
TAUGHT = frozenset(OF_TEACHER) | teachers.DIVERGENCES
_LIKELIEST = {'old_ids': 'likeliest', 'old_own_logp': 'likeliest_logp'}


def make_score(
  forward: forward_lib.Forward,
  needs: frozenset[str],
  *,
  others: Mapping[str, forward_lib.Forward],
  microbatch: int,
  mesh: Mesh,
) -> Callable[..., dict]:
  """The scoring pass as a jitted (params, others, columns) -> columns.

  It gives `old_logp` and `old_entropy` always, for the metrics at least, and
  what else the method needs of the policy when the batch began; `others` holds
  the parameters of further models by the column that is their log-prob. What
  the columns hold already, such as the log-probs of a teacher elsewhere, is not
  made again. Where experts are replayed, by the policy alone, it gives
  `rerouted` too.
  Microbatches without a token on the mask are not computed, and 0.

  Args:
    forward: makes the policy's columns.
    needs: of the method.
    others: makes the columns of a further model, by name of its log-prob.
    microbatch: rows at a time.
    mesh: where the arrays live.
  """
  asked = columns_lib.with_ids(needs) & _SCORED
  wanted = {'old_logp', 'old_entropy', *asked}
  wanted -= {_REROUTED, *others, *OF_TEACHER}
  own = {n: _LIKELIEST.get(n, n.removeprefix('old_')) for n in wanted}
  taught = {n: OF_TEACHER[n] for n in asked & OF_TEACHER.keys()}

  def one(params, frozen, part):
    names = dict(own)
    if routing.COLUMN in part:
      names[_REROUTED] = _REROUTED
    made = forward(params, part, frozenset(names.values()))
    scored = {name: made[column] for name, column in names.items()}
    part = {name: x for name, x in part.items() if name != routing.COLUMN}
    part = {**part, **scored}
    for name, model in others.items():
      theirs = taught if name in OF_TEACHER else {name: 'logp'}
      theirs = {n: c for n, c in theirs.items() if n not in part}
      made = model(frozen[name], part, frozenset(theirs.values()))
      scored |= {n: made[column] for n, column in theirs.items()}
    return scored

  def score(params, frozen, columns):
    part = sharding.microbatches(columns, microbatch, mesh)

    def at(i):
      return one(params, frozen, part(i))

    def put(i, out):
      return jax.tree.map(lambda all_, x: all_.at[i].set(x), out, at(i))

    def put_if_live(i, out):
      return jax.lax.cond(live[i], put, lambda _, out: out, i, out)

    rows, width = columns['mask'].shape
    # The updates of a batch lie under each other, each with its own padding.
    live = jnp.any(columns['mask'].reshape(-1, microbatch * width), axis=1)
    zeros = jax.tree.map(
      lambda x: jnp.zeros((live.size, *x.shape), x.dtype),
      jax.eval_shape(at, 0),
    )
    out = jax.lax.fori_loop(0, live.size, put_if_live, zeros)
    return jax.tree.map(lambda x: x.reshape(rows, *x.shape[2:]), out)

  return jax.jit(score, compiler_options=decoding.options())


@jax.jit
def moved(before: jax.Array, after: jax.Array, mask: jax.Array) -> jax.Array:
  """Mean |after - before| of log-probs over tokens on the mask, in nats."""
  gap = jnp.where(mask, jnp.abs(after - before), 0)
  return jnp.sum(gap) / jnp.maximum(jnp.sum(mask, dtype=jnp.float32), 1)


@jax.jit
def agreement(columns: types.Columns) -> dict:
  """How the trainer's log-probs differ from the engine's, on the mask.

  The largest and the mean |old_logp - rollout_logp|, the policy's mean entropy
  and, where `ref_logp` is there, k3 to the reference; all in nats. Pearson's
  correlation of the two log-probs, and of the two probabilities, as LEGO-RL
  has it (arXiv:2608.17393); 0 where one of them is constant. Where there are
  replayed experts, two shares of the tokens: `mismatch/replayed`, of those that
  come from a replayed state, and `mismatch/experts`, of those whose state would
  have gone through other experts in some layer.
  """
  mask = columns['mask']
  n = jnp.maximum(jnp.sum(mask, dtype=jnp.float32), 1)

  def mean(x):
    return jnp.sum(jnp.where(mask, x, 0)) / n

  def correlation(x, y):
    x, y = x - mean(x), y - mean(y)
    spread = jnp.sqrt(mean(x**2) * mean(y**2))
    varied = spread > 0
    return jnp.where(varied, mean(x * y) / jnp.where(varied, spread, 1), 0)

  ours, theirs = columns['old_logp'], columns['rollout_logp']
  gap = jnp.abs(ours - theirs)
  made = {
    'mismatch/max': jnp.max(jnp.where(mask, gap, 0)),
    'mismatch/mean': mean(gap),
    'mismatch/correlation': correlation(ours, theirs),
    'mismatch/probability': correlation(jnp.exp(ours), jnp.exp(theirs)),
    'train/entropy': mean(columns['old_entropy']),
  }
  if 'ref_logp' in columns:
    drift = divergences.k3(columns['old_logp'], columns['ref_logp'])
    made['train/ref_kl'] = mean(drift)
  if routing.COLUMN in columns:
    known = routing.known(columns[routing.COLUMN])
    made['mismatch/replayed'] = mean(known.astype(jnp.float32))
    made['mismatch/experts'] = mean(columns[_REROUTED].astype(jnp.float32))
  return made
