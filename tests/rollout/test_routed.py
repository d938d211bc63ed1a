"""The experts of a mixture, as the embedded engines and the server tell."""

import base64

import jax
import numpy as np
import pytest

from arl.models import hf, sizes, tokenizers, transformer
from arl.rollout import continuous, engine, local
from tests import tiny
from tests.rollout import serving

SHAPE = sizes.tiny_moe(32)._replace(layers=2, context=64)
TOLD = engine.Sampling(stop=(1,), experts=True)
ASKED = [
  engine.Request((5, 6, 7), 9, (0, 0), session=0),
  engine.Request(tuple(range(2, 22)), 6, (0, 1), session=1),
  engine.Request((9,), 1, (0, 2), session=2),
]


@pytest.fixture(scope='module')
def given():
  model = transformer.make(SHAPE)
  return model, model.init(jax.random.key(0))


@pytest.fixture(scope='module')
def routes(given):
  """ids -> the experts that the model chooses in one pass, [n, L, K]."""
  model, params = given
  run = jax.jit(model.routes)

  def of(ids):
    tokens = np.zeros((1, 64), np.int32)
    tokens[0, : len(ids)] = ids
    positions = np.arange(64)[None]
    segments = (positions < len(ids)).astype(np.int32)
    return np.asarray(run(params, tokens, positions, segments))[0, : len(ids)]

  return of


@pytest.fixture(scope='module', params=['local', 'continuous'])
def made(request, given):
  kind = {
    'local': local.LocalEngine,
    'continuous': continuous.ContinuousEngine,
  }[request.param]
  engine_ = kind(*given, slots=4, context=64, seed=3)
  yield engine_
  if request.param == 'continuous':
    engine_.close()


def test_those_of_all_tokens_but_the_last(made, routes):
  samples = made.generate(ASKED, TOLD)
  later = [
    r._replace(tokens=(*r.tokens, *s.tokens.tolist(), 4, 5), path=(1, i))
    for i, (r, s) in enumerate(zip(ASKED, samples))
  ]
  turns = [*zip(ASKED, samples), *zip(later, made.generate(later, TOLD))]
  for request, sample in turns:
    ids = [*request.tokens, *sample.tokens.tolist()]
    assert sample.experts.dtype == np.int32
    np.testing.assert_array_equal(sample.experts, routes(ids)[:-1])


def test_they_change_nothing_and_come_when_asked(made):
  samples = made.generate(ASKED, TOLD)
  for sample, plain in zip(
    samples, made.generate(ASKED, TOLD._replace(experts=False))
  ):
    assert plain.experts is None
    np.testing.assert_array_equal(sample.tokens, plain.tokens)


def test_over_http(given, routes, tmp_path):
  folder = tmp_path / 'model'
  hf.save(folder, jax.device_get(given[1]), SHAPE)
  tokenizers.save(tiny.tokenizer(), folder)
  with serving.running(folder, context=64) as client:
    body = {
      'input_ids': [5, 6, 7, 8],
      'return_routed_experts': True,
      'sampling_params': {'max_new_tokens': 9, 'ignore_eos': True},
    }
    for start in (0, 3):
      asked = {**body, 'routed_experts_start_len': start}
      made = client.post('/generate', json=asked).json()
      data = base64.b64decode(made['meta_info']['routed_experts'])
      told = np.frombuffer(data, '<i4').reshape(-1, 2, 2)
      wanted = routes([5, 6, 7, 8, *made['output_ids']])
      np.testing.assert_array_equal(told, wanted[start:-1])
    text = {'prompt': [5, 6], 'max_tokens': 3, 'return_routed_experts': True}
    (choice,) = client.post('/v1/completions', json=text).json()['choices']
    assert choice['meta_info']['routed_experts']
    bad = client.post('/generate', json={**body, 'routed_experts_start_len': 5})
    assert bad.status_code == 400 and 'give 0 to 4' in bad.text
