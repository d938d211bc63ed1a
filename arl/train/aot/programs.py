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
  make = {
    cases.TRAIN: training,
    cases.DECODE: decode,
    cases.PREFILL: prefill,
  }[case.program]
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
  step = step_lib.make_train_step(
    context.split(policy, layout),
    method,
    tx,
    microbatch=case.rows * case.parts,
    mesh=mesh,
  )
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
  model, params, cache, row = _sampling(case, mesh)

  def choose(logits, keys):
    return sampler.choose(
      logits, keys, sampler.Rule(False, False), *map(jnp.float32, (1, 1, 0))
    )

  def picked(logits, keys):
    ids, *told = choose(logits, keys)
    return ids, told

  def run(params, cache, last, course, leave):
    return decoding.decode(
      model, params, cache, last, course, picked, lambda ids: ids == 0,
      case.length, leave,
    )  # fmt: skip

  n = case.rows * case.parts
  last = row((n, case.size.width), jnp.bfloat16)
  number, live = row((n,), jnp.int32), row((n,), bool)
  keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), n))
  keys = row((n,), keys.dtype)
  course = decoding.Course(number, number, number, live, keys)
  leave = jax.ShapeDtypeStruct((2,), jnp.int32)
  donated = jax.jit(run, donate_argnums=1)
  return donated, (params, cache, last, course, leave)


def prefill(case: cases.Case, mesh: Mesh) -> tuple[Any, tuple]:
  """Prompts into the cache; each round is a chunk of every sequence."""
  model, params, cache, row = _sampling(case, mesh)
  n = case.rows * case.parts
  last = row((n, case.size.width), jnp.bfloat16)
  tokens, number = row((n, case.length), jnp.int32), row((n,), jnp.int32)
  run = jax.jit(functools.partial(decoding.prefill, model), donate_argnums=1)
  return run, (params, cache, last, tokens, number, number)


def _sampling(case, mesh):
  """(model, its parameters, its cache, what makes arrays split by rows)."""
  model = transformer.make(case.size, dtype='bfloat16')
  params = jax.eval_shape(model.init, jax.random.key(0))
  half = lambda x: jax.ShapeDtypeStruct(x.shape, jnp.bfloat16)
  n = case.rows * case.parts
  cache = jax.eval_shape(lambda: model.cache(n, case.length))

  def by_heads(x):  # [B, H, S, D], or the experts [B, L, S, K]
    heads = x.shape[1] == case.size.kv_heads and x.dtype != jnp.int32
    over = heads and not x.shape[1] % case.axes['tensor']
    spec = PartitionSpec(_rows(mesh)[0], 'tensor' if over else None)
    return _at(x, mesh, spec)

  def row(shape, kind):
    return _at(jax.ShapeDtypeStruct(shape, kind), mesh, _rows(mesh))

  params = placed(jax.tree.map(half, params), mesh)
  return model, params, jax.tree.map(by_heads, cache), row


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
