"""The programs of a run, lowered from abstract arguments: nothing is allocated.

They are the functions that a run compiles, with the method, the optimizer and
the number formats of a large one: DAPO, AdamW, bfloat16 arithmetic over float32
parameters and moments, layers computed again in the backward pass, the head in
chunks. A sampler holds its parameters in bfloat16.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from arl import levels
from arl.methods import compose, grpo
from arl.models import functional, transformer
from arl.rollout import decoding, sampler
from arl.train import context, forward, optimizers, partition, sharding
from arl.train import state as state_lib
from arl.train import step as step_lib
from arl.train.aot import cases, chips

GROUP = 8  # rollouts of a prompt


def devices(case: cases.Case) -> Any:
  """The devices of a case: a TPU topology's, or the fake ones of the CPU."""
  if case.target == chips.CPU:
    return jax.devices('cpu')[: case.chips]
  from jax.experimental import topologies

  name = chips.topology(case.target, case.chips)
  described = topologies.get_topology_desc(platform='tpu', topology_name=name)
  return described.devices


def lower(case: cases.Case) -> jax.stages.Lowered:
  """A case's program, ready to be compiled for its devices."""
  cases.check(case)
  mesh = Mesh(np.asarray(devices(case)).reshape(case.mesh), sharding.AXES)
  make = training if case.program == cases.TRAIN else decode
  function, arguments = make(case, mesh)
  platform = 'cpu' if case.target == chips.CPU else 'tpu'
  return function.trace(*arguments).lower(lowering_platforms=(platform,))


def training(case: cases.Case, mesh: Mesh) -> tuple[Any, tuple]:
  """One update: the jitted step and its abstract arguments."""
  layout = sharding.layout(mesh)
  model = transformer.make(case.size, dtype='bfloat16', remat='layer')
  method = compose.method(grpo.dapo())
  tx = optimizers.adamw(
    lr=1e-6, warmup=10, decay=0, b1=0.9, b2=0.95, weight_decay=0.1, max_norm=1
  )
  policy = forward.make(
    functional.placed(model, layout),
    temperature=1.0,
    chunk=case.chunk * case.parts,
  )
  gradient = step_lib.make_gradient(
    context.split(policy, layout),
    method,
    case.rows * case.parts,
    mesh,
    partition.DECODER,
  )
  apply = step_lib.make_apply(tx, mesh, partition.DECODER, None)

  @functools.partial(jax.jit, donate_argnums=0)
  def step(state, columns, credits):
    found = gradient(state.params, columns, credits, {})
    return apply(state, columns, found)

  params = jax.eval_shape(model.init, jax.random.key(0))
  state = jax.eval_shape(lambda p: state_lib.create(p, tx), params)
  columns = batch(case.rows * case.parts * case.microbatches, case.length)
  credits = jax.eval_shape(method.credit, columns)
  rows = by_rows((columns, credits), mesh)
  return step, (placed(state, mesh), *rows)


def batch(rows: int, length: int) -> dict[str, Any]:
  """The columns of an update of DAPO, abstract."""
  column = lambda kind: jax.ShapeDtypeStruct((rows, length), kind)
  kinds = {
    **dict.fromkeys(('tokens', 'positions', 'segments'), jnp.int32),
    **dict.fromkeys(('rewards', 'rollout_logp', 'old_logp'), jnp.float32),
    'mask': bool,
  }
  whole: Any = jax.ShapeDtypeStruct((rows, 1), jnp.int32)
  turns: Any = column(jnp.int32)
  return {
    **{name: column(kind) for name, kind in kinds.items()},
    'seq': levels.Level(whole, rows),
    'group': levels.Level(whole, max(rows // GROUP, 1)),
    'turn': levels.Level(turns, rows),
  }


def decode(case: cases.Case, mesh: Mesh) -> tuple[Any, tuple]:
  """Tokens of all sequences until they end; each round is one token."""
  model = functional.placed(
    transformer.make(case.size, dtype='bfloat16'), sharding.layout(mesh)
  )
  n = case.rows * case.parts

  def row(shape, kind):
    return _at(jax.ShapeDtypeStruct(shape, kind), mesh, _rows(mesh))

  def choose(logits, keys):
    numbers = map(jnp.float32, (1, 1, 0))
    ids, *told = sampler.choose(
      logits, keys, sampler.Rule(False, False), *numbers
    )
    return ids, told

  def run(params, cache, last, course, leave):
    return decoding.decode(
      model, params, cache, last, course, choose, lambda ids: ids == 0,
      case.length, leave,
    )  # fmt: skip

  number, live = row((n,), jnp.int32), row((n,), bool)
  keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), n))
  course = decoding.Course(number, number, number, live, row((n,), keys.dtype))
  return jax.jit(run, donate_argnums=1), (
    _halved(model, mesh),
    _cache(case, model, mesh),
    row((n, case.size.width), jnp.bfloat16),
    course,
    jax.ShapeDtypeStruct((2,), jnp.int32),
  )


def _halved(model: functional.Model, mesh: Mesh) -> Any:
  """Parameters in bfloat16, where they lie."""
  params = jax.eval_shape(model.init, jax.random.key(0))
  half = lambda x: jax.ShapeDtypeStruct(x.shape, jnp.bfloat16)
  return placed(jax.tree.map(half, params), mesh)


def _cache(case: cases.Case, model: functional.Model, mesh: Mesh) -> Any:
  """The cache, split by rows, and over tensor by its heads."""
  n = case.rows * case.parts
  heads = case.size.kv_heads % case.axes['tensor'] == 0

  def lie(x):  # [B, H, S, D], or the experts [B, L, S, K]
    over = heads and jnp.issubdtype(x.dtype, jnp.floating)
    spec = PartitionSpec(_rows(mesh)[0], 'tensor' if over else None)
    return _at(x, mesh, spec)

  return jax.tree.map(lie, jax.eval_shape(lambda: model.cache(n, case.length)))


def placed(tree: Any, mesh: Mesh) -> Any:
  """Parameters and moments where `sharding.shard_params` puts them."""

  def place(path, x):
    return _at(x, mesh, partition.spec(path, x.shape, mesh.shape))

  return jax.tree_util.tree_map_with_path(place, tree)


def by_rows(tree: Any, mesh: Mesh) -> Any:
  """Columns where `sharding.shard_rows` puts them."""
  spec = lambda x: _rows(mesh) if x.ndim else PartitionSpec()
  return jax.tree.map(lambda x: _at(x, mesh, spec(x)), tree)


def _rows(mesh: Mesh) -> PartitionSpec:
  return PartitionSpec(sharding.layout(mesh).rows)


def _at(x, mesh, spec):
  sharding_of = NamedSharding(mesh, spec)
  return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding_of)


def parameters(case: cases.Case) -> int:
  """How many numbers the model has."""
  model = transformer.make(case.size)
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  return sum(math.prod(x.shape) for x in jax.tree.leaves(shapes))
