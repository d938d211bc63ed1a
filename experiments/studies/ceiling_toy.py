"""A policy over answers, one of which it gives once in a thousand times.

Two kinds of problems, told apart by the grader alone, so that what is learnt on
one kind is done on the other as well: of the common kind the right answer is
one that the policy gives half of the time, of the rare kind one that it gives
with a chance of 1e-3. Groups of samples are credited as GRPO does.
"""

import jax
import jax.numpy as jnp
import numpy as np

from arl import levels
from arl.kernels import advantages

RARE = 1e-3
START = (0.5, RARE, 0.3, 0.199)  # of the answers; the last two are never right
RIGHT = (0, 1)  # of the common and the rare kind
GROUPS, SIZE, STEPS, RATE = 16, 8, 200, 0.1


def after(seed: int, steps: int = STEPS) -> np.ndarray:
  """The chance of each answer after GRPO, on policy, [4]."""
  logits, key = jnp.log(jnp.array(START)), jax.random.key(seed)
  for step in range(steps):
    logits = _step(logits, jax.random.fold_in(key, step))
  return np.asarray(jax.nn.softmax(logits))


@jax.jit
def _step(logits: jax.Array, key: jax.Array) -> jax.Array:
  n = GROUPS * SIZE
  group = np.arange(n) // SIZE
  right = np.array(RIGHT)[group % 2]  # half of the groups are of the rare kind
  said = jax.random.categorical(key, logits, shape=(n,))
  advantage = advantages.group_normalize(
    rewards=(said == right).astype(jnp.float32)[:, None],
    mask=jnp.ones((n, 1), bool),
    seq=levels.level(np.arange(n)[:, None], n),
    group=levels.level(group[:, None], GROUPS),
  )[:, 0]

  def gain(logits):
    return jnp.mean(advantage * jax.nn.log_softmax(logits)[said])

  return logits + RATE * jax.grad(gain)(logits)


def pass_at(chance: np.ndarray, k: int) -> float:
  """Exact, mean over the two kinds."""
  return float(np.mean([1 - (1 - chance[answer]) ** k for answer in RIGHT]))
