"""Chunks of tokens: there and back, and each device with its own rows."""

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from arl.models import heads, layout, sizes, transformer
from arl.train.aot import counting


@hypothesis.given(
  rows=st.integers(1, 6), length=st.integers(1, 9), chunk=st.integers(1, 20)
)
@hypothesis.settings(max_examples=40, deadline=None)
def test_chunks_are_all_tokens_by_position_and_come_back(rows, length, chunk):
  x = 1 + np.arange(rows * length * 2).reshape(rows, length, 2)
  parts = layout.in_chunks(jnp.asarray(x), chunk)
  assert len(parts) == -(-rows * length // chunk)
  assert parts.shape[1] * parts.shape[2] == chunk
  ordered = x.swapaxes(0, 1).reshape(-1, 2)
  for i, part in enumerate(np.asarray(parts).reshape(len(parts), chunk, 2)):
    held = {tuple(row) for row in part if row.any()}
    assert held == set(map(tuple, ordered[i * chunk : (i + 1) * chunk]))
  np.testing.assert_array_equal(layout.from_chunks(parts, (rows, length)), x)


def test_a_device_reads_the_head_for_its_own_rows_alone():
  size = sizes.tiny(97)
  model, mesh = transformer.make(size), Mesh(jax.devices()[:8], ('rows',))
  at = lambda shape, kind, spec: jax.ShapeDtypeStruct(
    shape, kind, sharding=NamedSharding(mesh, spec)
  )
  rows, length, chunk = 16, 33, 64
  params = jax.eval_shape(model.init, jax.random.key(0))
  params = jax.tree.map(lambda x: at(x.shape, x.dtype, PartitionSpec()), params)
  split = PartitionSpec('rows')
  hidden = at((rows, length, size.width), jnp.float32, split)
  tokens = at((rows, length), jnp.int32, split)

  def read(params, hidden, tokens, where):
    made = heads.columns(
      model, params, hidden, tokens, {'logp'}, chunk=chunk, where=where
    )
    return made['logp']

  where = at((rows, length), bool, split)
  text = jax.jit(read).lower(params, hidden, tokens, where).compile().as_text()
  costs = counting.count(text, 8)
  whole = 2 * rows * (length - 1) * size.width * size.vocab
  assert costs.flops == whole / 8
  # Only whether any device wants a chunk is told around.
  assert sum(costs.sent.values()) < 1000
