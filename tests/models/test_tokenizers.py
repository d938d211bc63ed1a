"""The character tokenizer: exact both ways, markers cannot be forged."""

import functools
import logging
import subprocess
import sys

import hypothesis
import hypothesis.strategies as st
import jax
import pytest

from arl.models import sizes, tokenizers, transformer

PRINTABLE = ''.join(map(chr, range(32, 127))) + '\n'


@functools.cache
def _characters():
  return tokenizers.characters()


def test_ids():
  tokenizer = _characters()
  assert len(tokenizer) == 6 + 96
  assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 1)
  assert tokenizers.encode(tokenizer, '\n ~') == [6, 7, 101]


@hypothesis.given(st.text(alphabet=PRINTABLE, max_size=60))
@hypothesis.settings(deadline=None)
def test_round_trip(text):
  ids = tokenizers.encode(_characters(), text)
  assert len(ids) == len(text)
  assert _characters().decode(ids) == text


@pytest.mark.parametrize('marker', tokenizers.MARKERS)
def test_markers_in_text_are_text(marker):
  tokenizer = _characters()
  text = f'say {marker} .'
  ids = tokenizers.encode(tokenizer, text)
  assert len(ids) == len(text) and min(ids) >= len(tokenizers.MARKERS)
  assert tokenizer.decode(ids) == text
  assert tokenizer.encode(marker) == [tokenizers.MARKERS.index(marker)]


def test_chat_template():
  messages = [
    {'role': 'system', 'content': 'S'},
    {'role': 'user', 'content': 'U '},
    {'role': 'assistant', 'content': 'A'},
    {'role': 'tool', 'content': 'T'},
  ]
  render = lambda messages, prompt: _characters().apply_chat_template(
    messages, tokenize=False, add_generation_prompt=prompt
  )
  assert render(messages, True) == (
    '<|system|>S<|user|>U <|assistant|>A<|end|><|tool|>T<|assistant|>'
  )
  assert render(messages[1:2], False) == '<|user|>U '
  with pytest.raises(Exception, match='unknown role judge'):
    render([{'role': 'judge', 'content': ''}], False)


def test_save_and_load(tmp_path):
  tokenizer = _characters()
  tokenizers.save(tokenizer, tmp_path)
  again = tokenizers.load(tmp_path)
  assert again.get_vocab() == tokenizer.get_vocab()
  assert again.chat_template == tokenizer.chat_template
  assert (again.pad_token_id, again.eos_token_id) == (0, 1)
  text = 'a  b , . <|end|>\n'
  assert tokenizers.encode(again, text) == tokenizers.encode(tokenizer, text)
  assert again.decode(tokenizers.encode(again, text)) == text


def test_loading_a_name_is_refused():
  with pytest.raises(ValueError, match='is no folder'):
    tokenizers.load('someone/some-model')


def test_unknown_characters_are_refused():
  with pytest.raises(ValueError, match="cannot encode 'caf\\\\xe9'|'café'"):
    tokenizers.encode(_characters(), 'café')


def test_check_vocab():
  tokenizers.check_vocab(_characters(), 102)
  with pytest.raises(ValueError, match='up to 101, 102 with 0.* is 101;'):
    tokenizers.check_vocab(_characters(), 101)


def test_a_model_knows_the_ids_of_its_tokenizer_alone():
  size = sizes.tiny(104)
  model = transformer.make(size)
  cut = tokenizers.known(_characters(), model)
  assert (model.vocab, cut.vocab) == (104, 102)
  params = jax.eval_shape(model.init, jax.random.key(0))
  hidden = jax.ShapeDtypeStruct((3, size.width), 'float32')
  assert jax.eval_shape(cut.logits, params, hidden).shape == (3, 102)
  whole = transformer.make(sizes.tiny(102))
  assert tokenizers.known(_characters(), whole) is whole
  with pytest.raises(ValueError, match="model's vocabulary is 101"):
    tokenizers.known(_characters(), transformer.make(sizes.tiny(101)))


def test_only_the_notice_is_hidden():
  _characters()
  assert logging.getLogger('transformers').filters == []
  code = 'from arl.models import tokenizers; tokenizers.characters()'
  run = subprocess.run(
    [sys.executable, '-c', code], capture_output=True, text=True, check=True
  )
  assert 'PyTorch' not in run.stderr + run.stdout
