"""Model folders: round trips bit by bit, and strictness both ways."""

import functools
import json
import os
import pathlib

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from arl.models import heads, hf, hf_config, hf_files, sizes, transformer

FAMILIES = {
  'tied': sizes.tiny(),
  'llama': sizes.tiny()._replace(tied=False, qkv_bias=True, out_bias=True),
  'qwen2': sizes.tiny()._replace(qkv_bias=True, family='qwen2'),
  'qwen3': sizes.tiny()._replace(
    tied=False, qk_norm=True, head_dim=16, family='qwen3'
  ),
  'qwen3_moe': sizes.tiny_moe()._replace(
    mixture=sizes.Mixture(6, 2, 24, normalized=False, dense=(0,))
  ),
}


@functools.cache
def _params(size):
  """Random numbers in the shapes of the model; nothing is compiled."""
  rng = np.random.default_rng(0)
  shapes = jax.eval_shape(transformer.make(size).init, jax.random.key(0))
  draw = lambda x: jnp.asarray(rng.normal(size=x.shape).astype(x.dtype))
  return jax.tree.map(draw, shapes)


def _same(a, b):
  jax.tree.map(np.testing.assert_array_equal, a, b)
  assert jax.tree.map(lambda x: x.dtype, a) == jax.tree.map(
    lambda x: x.dtype, b
  )


def _edit(folder, change):
  """Rewrites the tensors of a one-file folder."""
  tensors = safetensors.numpy.load_file(folder / 'model.safetensors')
  change(tensors)
  safetensors.numpy.save_file(tensors, folder / 'model.safetensors')


@pytest.fixture
def folder(tmp_path):
  hf.save(tmp_path / 'model', _params(sizes.tiny()), sizes.tiny())
  return tmp_path / 'model'


@pytest.mark.parametrize('name', FAMILIES)
@pytest.mark.parametrize('max_bytes', [10**9, 8000])
def test_round_trip(tmp_path, name, max_bytes):
  size, params = FAMILIES[name], _params(FAMILIES[name])
  hf.save(tmp_path / 'model', params, size, max_bytes=max_bytes)
  shards = sorted(tmp_path.glob('model/*.safetensors'))
  index = tmp_path / 'model' / 'model.safetensors.index.json'
  assert index.exists() == (max_bytes == 8000) == (len(shards) > 1)
  loaded = hf.load(tmp_path / 'model')
  assert loaded.sizes == size
  _same(loaded.params, params)
  assert os.listdir(tmp_path) == ['model']


def test_experts_are_tensors_of_their_own(tmp_path):
  size, params = FAMILIES['qwen3_moe'], _params(FAMILIES['qwen3_moe'])
  hf.save(tmp_path / 'model', params, size)
  tensors = safetensors.numpy.load_file(tmp_path / 'model/model.safetensors')
  held = params['layers']['1']['mlp']
  of = lambda name: tensors[f'model.layers.1.mlp.{name}.weight']
  np.testing.assert_array_equal(of('gate'), held['router']['kernel'].T)
  for part in ('gate', 'up', 'down'):
    matrix = held['experts'][part][3].T
    np.testing.assert_array_equal(of(f'experts.3.{part}_proj'), matrix)
  assert 'model.layers.0.mlp.gate_proj.weight' in tensors


def test_an_expert_that_is_missing_or_of_another_kind(tmp_path):
  size = FAMILIES['qwen3_moe']
  folder, name = (
    tmp_path / 'model',
    'model.layers.1.mlp.experts.5.up_proj.weight',
  )
  hf.save(folder, _params(size), size)
  _edit(folder, lambda t: t.update({name: t[name].astype(np.float16)}))
  with pytest.raises(ValueError, match=r"are of \['float16', 'float32'\]"):
    hf.load(folder)
  assert hf.load(folder, cast='float32').sizes == size
  _edit(folder, lambda t: t.pop(name))
  with pytest.raises(ValueError, match=name):
    hf.load(folder)


def test_shards_hold_no_more_than_asked(tmp_path):
  params = _params(sizes.tiny())
  hf.save(tmp_path / 'model', params, sizes.tiny(), max_bytes=13_000)
  total, names = 0, []
  for file in sorted(tmp_path.glob('model/model-*.safetensors')):
    tensors = safetensors.numpy.load_file(file)
    size = sum(x.nbytes for x in tensors.values())
    assert size <= 13_000
    total += size
    names.append(file.name)
  assert names[0] == f'model-00001-of-{len(names):05}.safetensors'
  index = json.loads(
    (tmp_path / 'model' / 'model.safetensors.index.json').read_text()
  )
  assert index['metadata']['total_size'] == total
  assert sorted(set(index['weight_map'].values())) == names


def test_bfloat16_is_kept_unless_named(tmp_path):
  size, params = sizes.tiny(), _params(sizes.tiny())
  hf.save(tmp_path / 'half', params, size, dtype='bfloat16')
  config = json.loads((tmp_path / 'half' / 'config.json').read_text())
  assert config['dtype'] == 'bfloat16'
  half = jax.tree.map(lambda x: x.astype(jnp.bfloat16), params)
  _same(hf.load(tmp_path / 'half').params, half)
  wide = hf.load(tmp_path / 'half', cast='float32').params
  _same(wide, jax.tree.map(lambda x: x.astype(jnp.float32), half))
  hf.save(tmp_path / 'again', half, size)
  one, two = (
    tmp_path / name / 'model.safetensors' for name in ('half', 'again')
  )
  assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize('name', FAMILIES)
def test_transformers_reads_the_config(tmp_path, name):
  import transformers

  size = FAMILIES[name]
  if name == 'llama':
    size = size._replace(
      rope=sizes.Rope(
        5e5, 'llama3', factor=8.0, original_max_position_embeddings=32
      )
    )
  hf.save(tmp_path / 'model', _params(size), size)
  config = transformers.AutoConfig.from_pretrained(tmp_path / 'model')
  assert config.model_type == size.family
  assert config.hidden_size == 32 and config.num_key_value_heads == 2
  assert config.head_dim == size.head_dim
  assert config.tie_word_embeddings == size.tied
  assert config.rope_parameters['rope_theta'] == size.rope.theta
  assert config.rope_parameters['rope_type'] == size.rope.type
  assert config.eos_token_id is None
  assert hf_config.to_sizes(config.to_dict()) == size


@pytest.mark.parametrize(
  'change, match',
  [
    (lambda t: t.pop('model.norm.weight'), r"missing \['model.norm.weight'\]"),
    (
      lambda t: t.update({'model.extra': np.zeros(2, np.float32)}),
      r"extra \['model.extra'\]",
    ),
    (
      lambda t: t.update({'model.norm.weight': np.ones(31, np.float32)}),
      r'model.norm.weight is float32 \(31,\)',
    ),
    (
      lambda t: t.update({'model.norm.weight': np.ones(32, np.int8)}),
      'model.norm.weight is of dtype I8',
    ),
    (
      lambda t: t.update({'model.norm.weight': np.ones(32, np.float64)}),
      'model.norm.weight is of dtype F64',
    ),
    (
      lambda t: t.update({'lm_head.weight': np.zeros([97, 32], np.float32)}),
      'lm_head.weight in the file differs',
    ),
  ],
)
def test_loading_is_strict(folder, change, match):
  _edit(folder, change)
  with pytest.raises(ValueError, match=match):
    hf.load(folder)


def test_missing_files_are_named(folder, tmp_path):
  with pytest.raises(ValueError, match='has no config.json'):
    hf.load(tmp_path)
  (folder / 'model.safetensors').unlink()
  with pytest.raises(ValueError, match='model.safetensors does not exist'):
    hf.load(folder)


def test_an_index_must_tell_the_truth(tmp_path):
  folder = tmp_path / 'model'
  hf.save(folder, _params(sizes.tiny()), sizes.tiny(), max_bytes=20_000)
  file = folder / 'model.safetensors.index.json'
  index = json.loads(file.read_text())
  del index['weight_map']['model.norm.weight']
  file.write_text(json.dumps(index))
  with pytest.raises(ValueError, match=r"disagree about \['model.norm.weight'"):
    hf.load(folder)


def _two_wide(tied):
  """A decoder of width 2 whose hidden states we choose."""
  size = sizes.Sizes(
    vocab=3,
    width=2,
    layers=1,
    heads=1,
    kv_heads=1,
    head_dim=2,
    mlp_width=2,
    rope=sizes.Rope(1e4),
    norm_eps=1e-6,
    tied=tied,
  )
  embed = np.array([[1, 0], [0, 2], [1, 1]], np.float32)
  tensors = {
    name: np.zeros(leaf.shape, np.float32)
    for name, leaf in hf._leaves(size).items()
  }
  return size, {**tensors, 'model.embed_tokens.weight': embed}, embed


def _logits(size, tensors):
  params = hf.from_tensors(tensors, size)
  return transformer.make(size).logits(params, jnp.array([2.0, 3.0]))


def test_tied_reads_the_embedding():
  size, tensors, embed = _two_wide(tied=True)
  np.testing.assert_array_equal(_logits(size, tensors), [2, 6, 5])
  repeated = {**tensors, 'lm_head.weight': embed.copy()}
  np.testing.assert_array_equal(_logits(size, repeated), [2, 6, 5])


def test_untied_reads_the_head():
  size, tensors, _ = _two_wide(tied=False)
  tensors['lm_head.weight'] = np.array([[0, 1], [1, 0], [1, -1]], np.float32)
  np.testing.assert_array_equal(_logits(size, tensors), [3, 2, -1])
  del tensors['lm_head.weight']
  with pytest.raises(ValueError, match=r"missing \['lm_head.weight'\]"):
    _logits(size, tensors)


def test_saving_is_strict(tmp_path):
  size, params = sizes.tiny(), _params(sizes.tiny())
  save = lambda params: hf.save(tmp_path / 'model', params, size)
  with pytest.raises(ValueError, match='value_head/bias'):
    save(heads.with_value_head(params, 32))
  with pytest.raises(ValueError, match='norm/scale are missing'):
    save({k: v for k, v in params.items() if k != 'norm'})
  with pytest.raises(ValueError, match=r'norm/scale are \(31,\)'):
    save({**params, 'norm': {'scale': jnp.ones([31])}})
  half = params['norm']['scale'].astype(jnp.bfloat16)
  with pytest.raises(ValueError, match=r"\['bfloat16', 'float32'\]; name one"):
    save({**params, 'norm': {'scale': half}})
  assert os.listdir(tmp_path) == []


def test_an_existing_folder_is_kept(folder):
  before = (folder / 'config.json').read_bytes()
  with pytest.raises(FileExistsError, match='choose another folder'):
    hf.save(folder, _params(sizes.tiny()), sizes.tiny())
  assert (folder / 'config.json').read_bytes() == before


def test_a_failed_save_leaves_nothing(tmp_path, monkeypatch):
  def fail(*_):
    raise OSError('the disk is full')

  monkeypatch.setattr(hf_files, 'write', fail)
  with pytest.raises(OSError, match='the disk is full'):
    hf.save(tmp_path / 'model', _params(sizes.tiny()), sizes.tiny())
  assert os.listdir(tmp_path) == []


def test_half_precision_file_of_others(folder):
  def halve(tensors):
    for name, tensor in tensors.items():
      tensors[name] = tensor.astype(ml_dtypes.bfloat16)

  _edit(pathlib.Path(folder), halve)
  params = hf.load(folder).params
  assert {x.dtype for x in jax.tree.leaves(params)} == {jnp.dtype('bfloat16')}
