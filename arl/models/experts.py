"""A mixture of experts: each token goes through the few MLPs that it chooses.

As in Qwen3-MoE (2505.09388): a linear router, K of E gated MLPs without biases,
no shared expert and no capacity. No token is dropped, so what becomes of one
does not depend on the others beside it.

The choice is discrete: in another program or number format the same weights may
choose another expert, and the token another probability, however small the
error was. A trainer can be given the choice that the sampler made (rollout
routing replay, 2510.11370): the experts are those given, and their weights
those of the trainer's own router, softmax(logits) over the given ones where the
model normalizes, so that the gradient still reaches the router.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jax import ad_checkpoint

from arl.models import grouped, sizes

CHOSEN = 'experts'  # what the choice is called among saved residuals


class Mixture(nnx.Module):
  """A router and the experts it chooses from."""

  def __init__(
    self,
    width: int,
    mixture: sizes.Mixture,
    dtype: jnp.dtype,
    rngs: nnx.Rngs,
  ):
    self.router = nnx.Linear(
      width,
      mixture.experts,
      use_bias=False,
      dtype=dtype,
      preferred_element_type=jnp.float32,
      rngs=rngs,
    )
    self.experts = Experts(width, mixture, dtype, rngs)
    self.mixture = mixture

  def __call__(
    self, x: jax.Array, given: jax.Array | None = None
  ) -> tuple[jax.Array, jax.Array]:
    """Maps x [n, D] to the same and the experts it chooses, int32 [n, K].

    Args:
      x: the tokens.
      given: int [n, K], experts to go through; a token with a negative one goes
        through its own choice, as with None all do.
    """
    logits = self.router(x)
    own = choose(logits, self.mixture.chosen)
    chosen = own
    if given is not None:
      chosen = jnp.where(jnp.all(given >= 0, -1, keepdims=True), given, own)
    weights = weigh(logits, chosen, self.mixture.normalized)
    return self.experts(x, chosen, weights), own


class Experts(nnx.Module):
  """E gated MLPs, down(silu(gate(x)) * up(x)), their matrices stacked.

  On a mesh the tokens of all devices are sorted together, so that each device
  goes through all of them: right, but no faster than one device.
  """

  def __init__(
    self,
    width: int,
    mixture: sizes.Mixture,
    dtype: jnp.dtype,
    rngs: nnx.Rngs,
  ):
    draw = jax.nn.initializers.lecun_normal(1, 2, batch_axis=0)

    def matrices(*shape):
      shape = mixture.experts, *shape
      return nnx.Param(draw(rngs.params(), shape, jnp.float32))

    self.gate = matrices(width, mixture.width)
    self.up = matrices(width, mixture.width)
    self.down = matrices(mixture.width, width)
    self.dtype = dtype

  def __call__(
    self, x: jax.Array, chosen: jax.Array, weights: jax.Array
  ) -> jax.Array:
    """The weighted sum of what the chosen experts [n, K] make of x [n, D]."""
    count = self.gate[...].shape[0]
    by_expert = jnp.argsort(chosen.reshape(-1), stable=True)
    members = jnp.bincount(chosen.reshape(-1), length=count)

    def project(rows, matrices):
      return grouped.dot(rows, matrices[...].astype(self.dtype), members)

    rows = x[by_expert // chosen.shape[1]]
    hidden = jax.nn.silu(project(rows, self.gate)) * project(rows, self.up)
    made = project(hidden, self.down)[jnp.argsort(by_expert)]
    made = made.reshape(*chosen.shape, -1).astype(jnp.float32)
    return (weights[..., None] * made).sum(1).astype(self.dtype)


def choose(logits: jax.Array, k: int) -> jax.Array:
  """The k likeliest experts of each token, int32 [n, k], the likeliest first.

  Args:
    logits: [n, E].
    k: how many; of equal logits the first.
  """
  own = jax.lax.top_k(jax.lax.stop_gradient(logits), k)[1]
  return ad_checkpoint.checkpoint_name(own.astype(jnp.int32), CHOSEN)


def weigh(logits: jax.Array, chosen: jax.Array, normalized: bool) -> jax.Array:
  """What the chosen experts count for, float32 [n, K].

  An expert that there is not, beyond the last, makes nan.

  Args:
    logits: float32 [n, E].
    chosen: int [n, K].
    normalized: whether a token's weights add up to 1, or to what the softmax
      over all experts leaves to the chosen ones.
  """
  if normalized:
    return jax.nn.softmax(jnp.take_along_axis(logits, chosen, -1), -1)
  return jnp.take_along_axis(jax.nn.softmax(logits, -1), chosen, -1)
