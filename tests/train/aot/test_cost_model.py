"""The formulas of layouts, against hand numbers and the shapes of models."""

import jax
import pytest

from arl.models import transformer
from arl.train.aot import cases, counting, model

CASE = cases.Case(
  cases.TRAIN, 'tiny', 'cpu', cases.mesh(fsdp=8), rows=2, length=64, chunk=32
)


@pytest.mark.parametrize('name', ['tiny', '0.6B', '8B', '30B-A3B'])
def test_parameters_are_those_of_the_model_but_for_norms(name):
  size = cases.MODELS[name]()._replace(layers=2)
  shapes = jax.eval_shape(transformer.make(size).init, jax.random.key(0))
  matrices = sum(x.size for x in jax.tree.leaves(shapes) if x.ndim > 1)
  assert model.parameters(size) == matrices


def test_published_models_have_their_published_sizes():
  billions = {
    name: model.parameters(cases.MODELS[name]()) / 1e9
    for name in ('0.6B', '8B', '30B-A3B')
  }
  assert billions == {
    '0.6B': pytest.approx(0.596, rel=0.01),
    '8B': pytest.approx(8.19, rel=0.01),
    '30B-A3B': pytest.approx(30.5, rel=0.01),
  }


def test_sent_bytes_by_hand():
  # A layer of the tiny model has 2 * 32 * 48 + 3 * 32 * 48 numbers, its table
  # 97 * 32; 4 chunks of 16 positions of both rows cover 63 of 64.
  layer, table, part = 5 * 32 * 48, 97 * 32, 7 / 8
  sent = model.expected(CASE._replace(layers=1)).sent
  assert sent == {
    'all-gather': 2 * 2 * 3 * (layer + 4 * table) * part,
    'reduce-scatter': 2 * 2 * layer * part,
    'all-reduce': 2 * 2 * 4 * 4 * table * part,
    'all-to-all': 2 * 2 * 2 * 128 * 32 * part,
  }


def test_one_device_sends_nothing():
  one = CASE._replace(mesh=cases.mesh())
  assert model.expected(one).sent == {}


@pytest.mark.parametrize('program', cases.PROGRAMS)
@pytest.mark.parametrize('axis', ['tensor', 'context'])
def test_work_is_shared_by_the_devices_that_share_rows(program, axis):
  if program != cases.TRAIN and axis == 'context':
    return  # samplers have no such axis
  one = CASE._replace(program=program, mesh=cases.mesh())
  four = one._replace(mesh=cases.mesh(**{axis: 4}))
  whole, split = model.expected(one), model.expected(four)
  if axis == 'tensor':  # over context tokens see their whole row
    assert split.flops == pytest.approx(whole.flops / 4)
  assert split.useful == pytest.approx(whole.useful / 4)


def test_attention_has_the_keys_up_to_the_end_of_a_stage():
  at = lambda length: model.expected(
    CASE._replace(mesh=cases.mesh(), length=length, layers=1, microbatches=1)
  )
  # Four stages of 512 tokens: (1 + 2 + 3 + 4) / 16 of all pairs, 4.5 passes of
  # 4 * 4 heads * 8 each; besides, 4 passes over every token.
  seen, token = (
    4.5 * 4 * 4 * 8 * 2048 * 10 / 16,
    4 * 2 * (5 * 32 * 48 + 97 * 32),
  )
  assert at(2048).flops == pytest.approx(2 * 2048 * (seen + token))


def test_weak_scaling_keeps_the_work_of_a_device():
  few = CASE._replace(model='8B', layers=0)
  many = few._replace(mesh=cases.mesh(fsdp=256))
  few, many = model.expected(few), model.expected(many)
  assert many.flops == few.flops
  held = lambda x: x.memory['state'] + x.memory['gradients']
  assert held(many) == pytest.approx(held(few) / 32)
  for kind, size in few.sent.items():
    assert many.sent[kind] == pytest.approx(size * (255 / 256) / (7 / 8))


def test_more_layers_are_a_line():
  at = lambda n: model.expected(CASE._replace(layers=n))
  one, two, five = at(1), at(2), at(5)
  for name in ('flops', 'bytes', 'chain'):
    first, step = getattr(one, name), getattr(two, name) - getattr(one, name)
    assert getattr(five, name) == pytest.approx(first + 4 * step)


def test_tiles_of_experts_where_tokens_choose_them_evenly():
  mesh = cases.mesh(expert=8)
  case = cases.Case(cases.TRAIN, '30B-A3B', 'v5p', mesh, 2, 2048)
  # 8 devices bring 4,096 tokens each, and a token chooses 8 of 128 experts: a
  # device has 16, that 32,768 choices come to.
  assert model.spread(case).within == 16 * 2048 / 512
  dense = case._replace(model='8B', mesh=cases.mesh(fsdp=8))
  assert model.spread(dense) == counting.NOTHING
  one = case._replace(program=cases.DECODE, mesh=cases.mesh(tensor=4), rows=64)
  assert model.spread(one).within == 128


def test_a_sampled_token_of_a_mixture_by_hand():
  # 2 devices share the experts, and each reads all that is common.
  case = cases.Case(
    cases.DECODE, 'tiny-moe', 'cpu', cases.mesh(data=4, expert=2), 4, 64, 1
  )
  size = case.size
  told = model.expected(case)
  each = model.matrices(size)
  common = size.layers * (each['attention'] + each['mlp']) + each['tables']
  assert told.memory['parameters'] == (
    2 * (common + size.layers * each['experts'] / 2)
  )
  states = size.layers * 4 * size.width
  assert told.sent == {'all-gather': 2 * states, 'reduce-scatter': 4 * states}
  assert model.expected(case._replace(mesh=cases.mesh(data=8))).sent == {}
