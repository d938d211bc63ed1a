"""What a teacher says of the policy's own tokens, as credit and as weights.

Kernels read columns [B, T] and give a column [B, T]. The advantage of a token
is how much likelier the teacher finds it than the policy that sampled it: minus
the sampled reverse KL. It is a number without a gradient, to be used in a
surrogate. Differentiating the mean of logp - teacher_logp itself teaches
nothing: its expected gradient is 0, and that of -teacher_logp is 0 always.
Log-probs of -inf count as -1e4. `teaching` has weights of tokens and turns.
"""

import math

import jax
import jax.numpy as jnp

from arl import ranges
from arl.kernels import logps


def gap(teacher_logp: jax.Array, old_logp: jax.Array) -> jax.Array:
  """How much likelier a token is to the teacher, in nats."""
  return logps.finite(teacher_logp) - logps.finite(old_logp)


def reverse_kl(
  old_logp: jax.Array,
  teacher_logp: jax.Array,
  *,
  most: ranges.Positive = 10.0,
) -> jax.Array:
  """teacher_logp - old_logp, at least -most: the advantage of OPD.

  On-policy distillation (Thinking Machines, 2025). Each token pays for itself
  alone, which is the reverse KL of the next token in the prefixes that were
  sampled; as a reward whose sum to go is the advantage, it is that of whole
  sequences. The limit is ours: a token that the teacher rules out counts -most.
  """
  return jnp.maximum(gap(teacher_logp, old_logp), -most)


def extrapolated(
  old_logp: jax.Array,
  teacher_logp: jax.Array,
  ref_logp: jax.Array,
  *,
  scale: ranges.NonNegative = 1.25,
  most: ranges.Positive = 10.0,
) -> jax.Array:
  """scale * (teacher - ref) - (old - ref), of log-probs, at least -most.

  G-OPD (arXiv:2602.12125, official code read): log(teacher / ref) is a dense
  reward of weight `scale`, beside a KL of weight 1 to the reference. Its
  optimum is proportional to ref^(1 - scale) * teacher^scale: 1 is OPD whatever
  the reference is, between 0 and 1 interpolates, above 1 extrapolates.
  """
  further = (scale - 1) * gap(teacher_logp, ref_logp)
  return jnp.maximum(gap(teacher_logp, old_logp) + further, -most)


def routed(teacher_logps: jax.Array, teacher: jax.Array) -> jax.Array:
  """The log-prob of the teacher that a token's task is given to.

  Of teacher_logps [B, T, M]; an index outside [0, M) is that of the nearest.
  """
  last = teacher_logps.shape[-1] - 1
  index = jnp.clip(teacher, 0, last)[..., None]
  return jnp.take_along_axis(teacher_logps, index, axis=-1)[..., 0]


def floor(share: float) -> float:
  """log(share / (1 - share)), the floor of `floored`."""
  return math.log(share / (1 - share))


def floored(
  old_logp: jax.Array,
  teacher_logp: jax.Array,
  *,
  share: ranges.OpenFraction = 0.2,
) -> jax.Array:
  """max(teacher_logp - old_logp, log(share / (1 - share))).

  REOPOLD (arXiv:2603.11137): what the teacher rejects costs a bounded reward.
  """
  return jnp.maximum(gap(teacher_logp, old_logp), floor(share))


def reopold_kept(
  old_logp: jax.Array,
  teacher_logp: jax.Array,
  old_entropy: jax.Array,
  progress: jax.Array,
  mask: jax.Array,
  *,
  share: ranges.OpenFraction = 0.2,
  unsure: ranges.Fraction = 0.5,
  switch: ranges.Fraction = 0.5,
) -> jax.Array:
  """The column `kept` of REOPOLD (arXiv:2603.11137): which tokens teach.

  Until `progress` reaches `switch`, those that the teacher does not reject, at
  or above the floor; from then on those of the highest entropy, the share
  `unsure` of the tokens of the batch. When it switches is inferred.
  """
  explore = gap(teacher_logp, old_logp) >= floor(share)
  refine = old_entropy >= _quantile(old_entropy, mask, 1 - unsure)
  return mask & jnp.where(progress < switch, explore, refine)


def _quantile(x, where, q):
  """The q-quantile of x where true, linear between neighbors."""
  ordered = jnp.sort(jnp.where(where, x, jnp.inf).reshape(-1))
  last = jnp.maximum(jnp.sum(where, dtype=jnp.int32) - 1, 0)
  at = q * last.astype(x.dtype)
  index = jnp.floor(at).astype(jnp.int32)
  low, high = ordered[index], ordered[jnp.minimum(index + 1, last)]
  part = at - jnp.floor(at)
  return jnp.where(part > 0, (1 - part) * low + part * high, low)


def trust(old_logp: jax.Array, teacher_logp: jax.Array) -> jax.Array:
  """min(teacher / policy, 1), of probabilities: how far a token is inside.

  The trust region of TrOPD (arXiv:2606.01249).
  """
  return jnp.exp(jnp.minimum(gap(teacher_logp, old_logp), 0))


def trusted(
  old_logp: jax.Array, teacher_logp: jax.Array, noise: jax.Array
) -> jax.Array:
  """1 with the probability `trust`, otherwise 0: the region's coin, a token.

  `noise` is uniform in [0, 1), of each token on its own.
  """
  inside = noise < trust(old_logp, teacher_logp)
  return jnp.where(inside, jnp.ones((), old_logp.dtype), 0)


def hindsight(
  logp: jax.Array,
  teacher_logp: jax.Array,
  hinted: jax.Array,
  *,
  sharpness: ranges.Positive = 5.0,
) -> jax.Array:
  """g * (teacher_logp - logp), g = sigmoid(sharpness * (teacher_logp - logp)).

  SEED (arXiv:2607.14777): the teacher is the policy with a skill in its
  context, written in hindsight, and g, without a gradient, is near 1 where the
  skill makes the token likelier. So the gradient is -g that of logp: a pull on
  the policy's own tokens. The value may be negative. Where there was no hint
  both are 0.
  """
  likelier = jax.lax.stop_gradient(gap(teacher_logp, logp))
  gate = jnp.where(hinted, jax.nn.sigmoid(sharpness * likelier), 0)
  teacher_logp = jax.lax.stop_gradient(logps.finite(teacher_logp))
  return gate * (teacher_logp - logp)
