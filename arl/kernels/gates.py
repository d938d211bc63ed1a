"""Credit of steps along an expert's episode, and of the episode as a whole.

A group is one expert's episode; each of its sequences answers one step of it,
from where the expert stood, and several answer each step: `step_of_group`. What
a step is in the episode is its `stage`, see `arl.kinds`. Rewards are 0 to 1 a
sequence. Nothing here carries a gradient.
"""

import jax
import jax.numpy as jnp

from arl import kinds, levels, ranges
from arl.kernels import advantages


def share(
  rewards: jax.Array,
  chosen: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
) -> jax.Array:
  """The mean R of the sequences of a group that are chosen, bool [B, T].

  What was earned there of what could be. 0 where a group has none.
  """
  score = levels.total(jax.lax.stop_gradient(rewards), seq, mask)
  here = chosen & levels.last(seq, mask)
  return jnp.where(mask, levels.mean(score, group, here), 0)


def episode_reward(
  rewards: jax.Array,
  stage: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  sharpness: ranges.Positive = 1.0,
) -> jax.Array:
  """(phi + psi) * intent: what all steps of an episode earn together (ESPO).

  arXiv:2607.25369: phi and psi are sigmoids of the sharpness times what was
  earned of the evidence and of the decisions, the last one included; the intent
  is what was earned of the last. It is not centred: all that was sampled in an
  episode that went well becomes likelier. `centered` takes that out.
  """
  earned = lambda chosen: share(rewards, chosen, mask, seq, group)
  evidence = earned(stage == kinds.EVIDENCE)
  decided = earned((stage == kinds.DECISION) | (stage == kinds.INTENT))
  intent = earned(stage == kinds.INTENT)
  gate = lambda x: jax.nn.sigmoid(sharpness * x)
  return jnp.where(mask, (gate(evidence) + gate(decided)) * intent, 0)


def centered(
  episode_reward: jax.Array, mask: jax.Array, group: levels.Level
) -> jax.Array:
  """An episode's reward less the mean of the batch, each episode counted once.

  Ours. A batch of one episode gives 0.
  """
  once = levels.last(group, mask)
  mean = levels.mean(episode_reward, advantages.whole_batch(mask), once)
  return jnp.where(mask, episode_reward - mean, 0)


def with_episode(
  advantage: jax.Array,
  episode_reward: jax.Array,
  *,
  coef: ranges.NonNegative = 1.0,
) -> jax.Array:
  """advantage + coef * episode_reward, on all that the episode sampled."""
  return advantage + coef * episode_reward
