"""Costs that are read off a program's text are those worked out by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from arl.train.aot import counting, hlo

LOOP = """HloModule loop

%cond (c: (s32[], f32[8,8])) -> pred[] {
  %c = (s32[], f32[8,8]) parameter(0)
  %i = s32[] get-tuple-element(%c), index=0
  %limit = s32[] constant(5)
  ROOT %less = pred[] compare(%i, %limit), direction=LT
}

%body (b: (s32[], f32[8,8])) -> (s32[], f32[8,8]) {
  %b = (s32[], f32[8,8]) parameter(0)
  %j = s32[] get-tuple-element(%b), index=0
  %x = f32[8,8] get-tuple-element(%b), index=1
  %dot = f32[8,8] dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %sum = f32[8,8] all-reduce(%dot), replica_groups={{0,1,2,3}}
  ROOT %next = (s32[], f32[8,8]) tuple(%j, %sum)
}

ENTRY %main (p: (s32[], f32[8,8])) -> (s32[], f32[8,8]) {
  %p = (s32[], f32[8,8]) parameter(0)
  ROOT %loop = (s32[], f32[8,8]) while(%p), condition=%cond, body=%body
}
"""  # noqa: E501


def test_a_loop_counts_as_often_as_it_runs():
  costs = counting.count(LOOP, 4)
  assert costs.flops == 5 * 2 * 8 * 8 * 8
  assert costs.sent == {'all-reduce': 5 * 2 * 256 * 3 / 4}
  assert costs.bytes == 5 * (3 * 256 + 2 * 256)
  assert costs.chain == 5 * 2 and not costs.unknown


def test_a_loop_of_unknown_length_counts_as_often_as_told():
  text = LOOP.replace('constant(5)', 'get-tuple-element(%c), index=0')
  costs = counting.count(text, 4, counting.Found(rounds=3))
  assert costs.flops == 3 * 2 * 8**3 and costs.unknown == 1


def test_a_reduction_that_is_sliced_is_a_scatter():
  text = """HloModule scatter

%fused (a: f32[8,8], i: s32[]) -> f32[2,8] {
  %a = f32[8,8] parameter(0)
  %i = s32[] parameter(1)
  %zero = s32[] constant(0)
  %sum = f32[8,8] all-reduce(%a), replica_groups={{0,1,2,3}}
  ROOT %part = f32[2,8] dynamic-slice(%sum, %i, %zero), dynamic_slice_sizes={2,8}
}

ENTRY %main (p: f32[8,8], i: s32[]) -> f32[2,8] {
  %p = f32[8,8] parameter(0)
  %i = s32[] parameter(1)
  ROOT %fusion = f32[2,8] fusion(%p, %i), kind=kCustom, calls=%fused
}
"""  # noqa: E501
  assert counting.count(text, 4).sent == {'reduce-scatter': 256 * 3 / 4}


def test_a_fusion_reads_what_it_slices_and_writes_what_it_updates():
  text = """HloModule sliced

%fused (stack: f32[100,8], i: s32[], new: f32[1,8]) -> f32[100,8] {
  %stack = f32[100,8] parameter(0)
  %i = s32[] parameter(1)
  %new = f32[1,8] parameter(2)
  ROOT %put = f32[100,8] dynamic-update-slice(%stack, %new, %i, %i)
}

ENTRY %main (p: f32[100,8], i: s32[], n: f32[1,8]) -> f32[100,8] {
  %p = f32[100,8] parameter(0)
  %i = s32[] parameter(1)
  %n = f32[1,8] parameter(2)
  ROOT %fusion = f32[100,8] fusion(%p, %i, %n), kind=kLoop, calls=%fused
}
"""
  assert counting.count(text, 1).bytes == 4 + 32 + 32


@pytest.mark.parametrize(
  'left, right, made, attributes, flops',
  [
    # What a TPU makes of a product, of products in batches, and transposed.
    ('8,16', '16,4', '8,4', 'dim_labels=bf_io->bf', 2 * 8 * 16 * 4),
    ('8,16', '4,16', '8,4', 'dim_labels=bf_oi->bf', 2 * 8 * 16 * 4),
    (
      '2,8,64,16', '2,8,32,16', '2,8,64,32',
      'window={size=2x8 stride=1x7 lhs_dilate=2x8},'
      ' dim_labels=01bf_01oi->01bf',
      2 * 2 * 8 * 64 * 16 * 32,
    ),
    (
      '8,16,1', '2,4,16', '8,2,4',
      'window={size=2 pad=1_1 rhs_reversal=1}, dim_labels=bf0_0oi->b0f',
      2 * 8 * 2 * 16 * 4,
    ),
  ],
)  # fmt: skip
def test_convolutions_that_are_products(left, right, made, attributes, flops):
  text = f"""HloModule product

ENTRY %main (l: f32[{left}], r: f32[{right}]) -> f32[{made}] {{
  %l = f32[{left}] parameter(0)
  %r = f32[{right}] parameter(1)
  ROOT %c = f32[{made}] convolution(%l, %r), {attributes}
}}
"""
  assert counting.count(text, 1).flops == flops


def test_the_dearest_branch_counts():
  text = """HloModule branches

%none (n: f32[8,8]) -> f32[8,8] {
  ROOT %n = f32[8,8] parameter(0)
}

%some (s: f32[8,8]) -> f32[8,8] {
  %s = f32[8,8] parameter(0)
  ROOT %dot = f32[8,8] dot(%s, %s), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY %main (p: f32[8,8], i: s32[]) -> f32[8,8] {
  %p = f32[8,8] parameter(0)
  %i = s32[] parameter(1)
  ROOT %c = f32[8,8] conditional(%i, %p, %p), branch_computations={%none, %some}
}
"""  # noqa: E501
  assert counting.count(text, 1).flops == 2 * 8**3


def compiled(function, *arguments) -> counting.Costs:
  text = jax.jit(function).lower(*arguments).compile().as_text()
  return counting.count(text, 8)


def test_loops_of_real_programs_are_counted():
  x = jnp.ones((32, 32))
  once = compiled(lambda x: x @ x, x)
  assert once.flops == 2 * 32**3
  looped = compiled(lambda x: jax.lax.fori_loop(0, 7, lambda i, y: y @ x, x), x)
  assert looped.flops == 7 * once.flops and not looped.unknown


def test_loops_of_unknown_length_within_one_another():
  def run(x, outer, inner):
    again = lambda y: jax.lax.fori_loop(0, inner, lambda i, z: z @ x, y)
    return jax.lax.fori_loop(0, outer, lambda i, y: again(y), x)

  x, n = jnp.ones((32, 32)), jnp.int32(1)
  text = jax.jit(run).lower(x, n, n).compile().as_text()
  found = counting.Found(rounds=3, within=5)
  costs = counting.count(text, 1, found)
  assert costs.flops == 3 * 5 * 2 * 32**3 and costs.unknown == 2


SIDE = 64 * 8 * 4  # bytes of a device's part


@pytest.mark.parametrize(
  'function, kind, sent',
  [
    (jax.lax.psum, 'all-reduce', 2 * SIDE * 7 / 8),
    (functools.partial(jax.lax.all_gather, tiled=True), 'all-gather', SIDE * 7),
    (
      functools.partial(jax.lax.psum_scatter, tiled=True),
      'reduce-scatter',
      SIDE * 7 / 8,
    ),
    (
      lambda x, axis: jax.lax.all_to_all(x, axis, 0, 0, tiled=True),
      'all-to-all',
      SIDE * 7 / 8,
    ),
    (
      lambda x, axis: jax.lax.ppermute(x, axis, [(i, i ^ 1) for i in range(8)]),
      'collective-permute',
      SIDE,
    ),
  ],
  ids=counting.KINDS[2:3] + counting.KINDS[:2] + counting.KINDS[3:],
)
def test_collectives_of_real_programs_send_what_rings_do(function, kind, sent):
  mesh = jax.sharding.Mesh(np.asarray(jax.devices()[:8]), ('x',))
  spec = PartitionSpec('x')
  over = jax.shard_map(
    lambda x: function(x, 'x'),
    mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False,
  )  # fmt: skip
  costs = compiled(over, jnp.ones((8 * 64, 8)))
  assert costs.sent == {kind: pytest.approx(sent)}
  assert costs.chain == 1


def test_programs_add_up():
  one = counting.Costs(2.0, 3.0, {'all-gather': 4.0}, 5.0, 0)
  both = counting.total([(2, one), (1, one._replace(unknown=1))])
  assert both == counting.Costs(6.0, 9.0, {'all-gather': 12.0}, 10.0, 1)
  assert hlo.Array('f32', (2, 3)).bytes == 24
