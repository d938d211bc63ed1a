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

On a mesh each device goes through its own experts alone. Those that share out
the experts, a group, gather the tokens of all of them, compute what each has to
add, and hand the sums back to the devices that the tokens came from. Shapes are
known beforehand: with E experts over e devices and n tokens in a group, a
device has room for n min(K, E / e) picks, as many as can come to it, so that
none is dropped. Room costs no more than the numbers of picks: products are
computed for those that came. So a layer takes as long as its busiest device.
"""

import functools

import jax
import jax.numpy as jnp
from flax import nnx
from jax import ad_checkpoint
from jax.sharding import PartitionSpec

from arl.models import grouped, sizes
from arl.models import layout as layout_lib

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
    self,
    x: jax.Array,
    given: jax.Array | None = None,
    layout: layout_lib.Layout | None = None,
  ) -> tuple[jax.Array, jax.Array]:
    """Maps x [n, D] to the same and the experts it chooses, int32 [n, K].

    Args:
      x: the tokens.
      given: int [n, K], experts to go through, none twice for one token; a
        token with a negative one goes through its own choice, as with None all
        do.
      layout: of a mesh; None for one device.
    """
    logits = self.router(x)
    own = choose(logits, self.mixture.chosen)
    chosen = own
    if given is not None:
      chosen = jnp.where(jnp.all(given >= 0, -1, keepdims=True), given, own)
    weights = weigh(logits, chosen, self.mixture.normalized)
    return self.experts(x, chosen, weights, layout), own


class Experts(nnx.Module):
  """E gated MLPs, down(silu(gate(x)) * up(x)), their matrices stacked."""

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
    self,
    x: jax.Array,
    chosen: jax.Array,
    weights: jax.Array,
    layout: layout_lib.Layout | None = None,
  ) -> jax.Array:
    """The weighted sum of what the chosen experts [n, K] make of x [n, D]."""
    matrices = self.gate[...], self.up[...], self.down[...]
    cast = tuple(each.astype(self.dtype) for each in matrices)
    if layout is None or layout.mesh.size == 1:
      made = mixed(x, chosen, weights, *cast, experts=len(cast[0]))
      return made.astype(self.dtype)
    return _split(layout, x, chosen, weights, *cast).astype(self.dtype)


def mixed(
  x: jax.Array,
  chosen: jax.Array,
  weights: jax.Array,
  gate: jax.Array,
  up: jax.Array,
  down: jax.Array,
  *,
  experts: int,
  first: jax.Array | int = 0,
) -> jax.Array:
  """What some experts add to the weighted sum of all, float32 [n, D].

  Args:
    x: [n, D], the tokens.
    chosen: int [n, K], by the number of each expert among all.
    weights: float32 [n, K].
    gate: [E, D, F], of the E experts that are here; so are `up` and `down`.
    up: [E, D, F].
    down: [E, F, D].
    experts: how many there are in all.
    first: the number of the first of those that are here.
  """
  count, picks = len(gate), chosen.shape[1]
  here = chosen - first
  here = jnp.where((here >= 0) & (here < count), here, count)
  by_expert = jnp.argsort(here.reshape(-1), stable=True)
  members = jnp.bincount(here.reshape(-1), length=count)
  order = by_expert[: len(x) * min(picks, count)]
  made = grouped.mlp(
    experts,
    x,
    order // picks,
    weights.reshape(-1)[order],
    members,
    gate,
    up,
    down,
  )
  return made + 0 * weights.sum(1, keepdims=True)  # nan of no expert at all


def _split(layout, x, chosen, weights, gate, up, down):
  """`mixed` of all experts, each device with its own."""

  def fits(n, axis):
    devices = layout.mesh.shape[axis]
    return axis if devices > 1 and n % devices == 0 else None

  split = fits(len(gate), layout.experts), fits(gate.shape[2], layout.width)
  tokens = layout_lib.flat(layout)
  wide = PartitionSpec(split[0], None, split[1])
  deep = PartitionSpec(*split)

  some = functools.partial(mixed, experts=len(gate))

  def of_device(x, chosen, weights, *matrices):
    if split[0] is None:
      return _summed(some(x, chosen, weights, *matrices), split[1])
    gather = functools.partial(
      jax.lax.all_gather, axis_name=split[0], tiled=True
    )
    first = jax.lax.axis_index(split[0]) * len(matrices[0])
    x, chosen, weights = (gather(each) for each in (x, chosen, weights))
    made = some(x, chosen, weights, *matrices, first=first)
    made = jax.lax.psum_scatter(made, split[0], tiled=True)
    return _summed(made, split[1])

  return layout_lib.over_rows(
    layout, of_device, (*(tokens,) * 3, wide, wide, deep), tokens
  )(x, chosen, weights, gate, up, down)


def _summed(made, axis):
  return made if axis is None else jax.lax.psum(made, axis)


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
