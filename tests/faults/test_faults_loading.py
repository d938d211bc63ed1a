"""Known faults of what a folder holds: heads, vocabulary, rotations."""

import json

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
import served
import tiny
from safetensors import numpy as safetensors

from arl.models import (
  hf,
  hf_config,
  hf_files,
  rope,
  sizes,
  tokenizers,
  transformer,
)
from arl.rollout import engine, local, sampler
from arl.rollout.sglang import worker as sglang_worker
from arl.train import (
  loading,
)
from experiments.studies import pretend

pytestmark = pytest.mark.usefixtures('compiled_once')
PLAIN = engine.Sampling()
REQUEST = engine.Request((1, 2, 3), 4, (0, 0))


HEADED = sizes.tiny(3)._replace(
  width=2, layers=1, heads=1, kv_heads=1, head_dim=2, mlp_width=2
)
EMBED = np.float32([[1, 0], [0, 2], [1, 1]])
HEAD = np.float32([[0, 1], [1, 0], [1, -1]])


def folder_of(path, *, tied, head, nested):
  """A model folder whose flag of tying stands at the top or below."""
  size = HEADED._replace(tied=tied)
  params = transformer.make(size).init(jax.random.key(0))
  params['embed']['embedding'] = jnp.asarray(EMBED)
  if not tied:
    params['head']['embedding'] = jnp.asarray(HEAD)
  hf.save(path, jax.device_get(params), size)
  told = json.loads((path / 'config.json').read_text())
  told.pop('tie_word_embeddings', None)
  (told.setdefault('text_config', {}) if nested else told)[
    'tie_word_embeddings'
  ] = tied
  (path / 'config.json').write_text(json.dumps(told))
  file = path / 'model.safetensors'
  tensors = safetensors.load_file(file)
  if not head:
    tensors.pop('lm_head.weight', None)
  safetensors.save_file(tensors, file)
  return path


@pytest.mark.parametrize(
  'tied, head, nested, want',
  [
    (True, False, True, [2, 6, 5]),
    (True, False, False, [2, 6, 5]),
    (False, True, True, [3, 2, -1]),
    (False, True, False, [3, 2, -1]),
  ],
)
def test_38_the_head_is_the_one_of_the_file(tmp_path, tied, head, nested, want):
  path = folder_of(tmp_path / 'm', tied=tied, head=head, nested=nested)
  loaded = hf.load(path)
  logits = loaded.model.logits(loaded.params, jnp.float32([2, 3]))
  np.testing.assert_array_equal(logits, want)
  # One parameter, one gradient and one tensor on its way to a sampler.
  assert ('head' in loaded.params) == head
  hf.save(tmp_path / 'sent', jax.device_get(loaded.params), loaded.sizes)
  sent = hf_files.read(tmp_path / 'sent')
  assert ('lm_head.weight' in sent) == head
  tiny.same(hf.from_tensors(sent, loaded.sizes), loaded.params)


def test_38_a_head_that_is_missing_is_an_error(tmp_path):
  path = folder_of(tmp_path / 'm', tied=False, head=False, nested=True)
  with pytest.raises(ValueError, match=r"missing \['lm_head.weight'\]"):
    hf.load(path)


def three_letters():
  """A tokenizer of three ids."""
  made = tiny.tokenizer()
  few = {'_': 0, '!': 1, 'a': 2}
  made.get_vocab = lambda: few
  return made


def test_39_rows_without_a_token_get_no_mass_and_are_not_sampled():
  model = tokenizers.known(three_letters(), plain.table(5))
  assert model.vocab == 3
  logits = jnp.zeros((1, 4, 5)).at[0, 0].set(jnp.float32([-3, -1, -2, 0, 0]))
  one = plain.made([0, 1], [0, 1])
  made, _ = plain.scored(
    model, {'logits': logits}, plain.columns([one], width=4)
  )
  np.testing.assert_allclose(made['old_logp'][0, 1], -0.40761, atol=1e-5)
  rows = jnp.broadcast_to(model.logits(None, logits[:, 0]), (10_000, 3))
  ids, logp = jax.jit(sampler.choose, static_argnums=2)(
    rows,
    sampler.fold(0, np.arange(10_000)[:, None]),
    sampler.Rule(False, False),
    *(jnp.float32(1), jnp.float32(1), jnp.int32(0)),
  )
  assert set(ids.tolist()) == {0, 1, 2}
  np.testing.assert_allclose(logp[ids == 1], -0.40761, atol=1e-5)


@pytest.fixture(scope='module')
def padded_folder(tmp_path_factory):
  """A policy of 12 rows, of which 4 beyond its tokenizer would always win."""
  folder = tmp_path_factory.mktemp('padded') / 'model'
  shape = tiny.size(12)._replace(tied=False)
  tiny.write_model(folder, shape=shape)
  file = folder / 'model.safetensors'
  tensors = safetensors.load_file(file)
  rng = np.random.default_rng(0)
  head = rng.normal(size=tensors['lm_head.weight'].shape).astype(np.float32)
  head[8:] *= 30
  safetensors.save_file({**tensors, 'lm_head.weight': head}, file)
  return folder


def test_39_a_run_knows_the_ids_of_its_tokenizer_alone(padded_folder):
  block = tiny.config(padded_folder).model
  loaded, tokenizer = loading.load_model(block, 0)
  assert loaded.model.vocab == len(tokenizer) == 8
  assert loaded.sizes.vocab == 12  # all rows are kept, and saved
  said = local.LocalEngine(
    loaded.model, loaded.params, slots=4, context=24, seed=0
  )
  asked = [engine.Request((2, 3), 20, (i,)) for i in range(8)]
  samples = said.generate(asked, PLAIN)
  ids = np.concatenate([sample.tokens for sample in samples])
  assert ids.max() < 8
  rolled = [
    plain.made(
      [2, 3, *s.tokens], [0, 0] + [1] * 20, logp=[0, 0, *s.logp], id=str(i)
    )
    for i, s in enumerate(samples)
  ]
  _, agreed = plain.scored(
    loaded.model, loaded.params, plain.columns(rolled, width=24)
  )
  assert agreed['mismatch/max'] < 1e-4
  with pytest.raises(ValueError, match='ids 0 to 7'):
    said.generate([engine.Request((8,), 1, (0,))], PLAIN)


CONFIG = {
  'model_type': 'llama',
  'vocab_size': 97,
  'hidden_size': 16,
  'intermediate_size': 48,
  'num_hidden_layers': 2,
  'num_attention_heads': 4,
  'rms_norm_eps': 1e-6,
  'max_position_embeddings': 128,
}
LINEAR = {'rope_type': 'linear', 'factor': 4.0}
SPELLINGS = (
  {'rope_theta': 10_000.0, 'rope_scaling': LINEAR},
  {'rope_parameters': {'rope_theta': 10_000.0, **LINEAR}},
)


def angles(settings, head_dim, position):
  cos, sin = rope.tables(settings, head_dim, jnp.int32([position]))
  return np.arctan2(sin, cos)[0]


@pytest.mark.parametrize('spelling', SPELLINGS)
def test_40_both_spellings_turn_as_far(spelling):
  size = hf_config.to_sizes({**CONFIG, **spelling})
  np.testing.assert_allclose(angles(size.rope, 4, 8), [2, 0.02], rtol=1e-5)


@pytest.mark.parametrize(
  'wrong',
  [
    {'rope_scaling': {'rope_type': 'dynamic', 'factor': 2.0}},
    {'rope_scaling': {**LINEAR, 'beta_fast': 32}},
    {'rope_scaling': LINEAR, 'rope_parameters': {'rope_type': 'default'}},
    {'rope_theta': 5.0, 'rope_parameters': {'rope_theta': 7.0}},
  ],
)
def test_40_what_is_not_read_is_refused(wrong):
  with pytest.raises(ValueError, match='rope'):
    hf_config.to_sizes({**CONFIG, **wrong})


SCALED = {'factor': 4.0, 'original_max_position_embeddings': 1024}
TYPES = st.one_of(
  st.just({'type': 'default'}),
  st.just({'type': 'linear', 'factor': 4.0}),
  st.just({'type': 'llama3', **SCALED}),
  st.just({'type': 'yarn', **SCALED}),
)


@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(TYPES, st.floats(100, 1e6), st.integers(0, 4095))
def test_40_settings_survive_a_folder_and_hold_far_out(kind, theta, position):
  settings = sizes.Rope(theta, **kind)
  size = sizes.tiny()._replace(rope=settings)
  assert (
    hf_config.to_sizes(hf_config.from_sizes(size, 'float32')).rope == settings
  )
  radians, factor = rope.frequencies(settings, 8)
  for at in (0, 8, position, 2048, 4095):
    cos, sin = rope.tables(settings, 8, jnp.int32([at]))
    exact = np.float32(radians) * np.float64(at)
    np.testing.assert_allclose(cos[0], factor * np.cos(exact), atol=2e-3)
    np.testing.assert_allclose(sin[0], factor * np.sin(exact), atol=2e-3)


def test_39_an_id_that_no_model_has_is_an_error():
  """Of a server: what it samples is looked at before it is kept."""

  def twist(body, answer):
    answer['output_ids'][0] = pretend.VOCAB
    return answer

  with served.serving() as (client, _, (model,)):
    model.twist = twist
    with pytest.raises(sglang_worker.ServerError, match='none of 64 ids'):
      client.generate([REQUEST], PLAIN)
