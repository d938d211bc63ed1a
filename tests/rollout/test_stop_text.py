"""Samples that a text ends: cut at the token that completes it."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import serving
import tiny

from arl.models import hf
from arl.rollout import continuous, engine, local, sglang, stop_text

ENDS = engine.Sampling(stop=(1,), stop_text=('aa', 'b.'))


def spell(ids):
  return ''.join('ab+c'[i] for i in ids)


@hypothesis.given(
  st.lists(st.integers(0, 3), max_size=20),
  st.lists(st.text('ab+', min_size=1, max_size=3), max_size=3),
)
def test_it_is_the_fewest_ids_that_spell_a_text(ids, texts):
  slow = next(
    (n for n in range(len(ids) + 1) if any(t in spell(ids[:n]) for t in texts)),
    None,
  )
  found = stop_text.find(ids, texts, spell)
  assert (found and found[0]) == slow
  assert not found or found[1] in spell(ids[:slow])


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return tiny.write_model(tmp_path_factory.mktemp('spelt') / 'model')


def requests(count):
  return [engine.Request((2, 3, 2), 24, (0, i), (0, i)) for i in range(count)]


def test_every_engine_ends_at_the_same_token(folder):
  loaded, tokenizer = hf.load(folder), tiny.tokenizer()
  read = lambda ids: tokenizer.decode(ids, skip_special_tokens=False)
  made = local.LocalEngine(
    loaded.model, loaded.params, slots=8, context=32, seed=7, read=read
  )
  whole = made.generate(requests(32), ENDS._replace(stop_text=()))
  ended = made.generate(requests(32), ENDS)
  with serving.running(folder) as http:
    client = sglang.connect(
      [str(http.base_url)], vocab=loaded.model.vocab, context=32, seed=7
    )
    served = client.generate(requests(32), ENDS)
    client.close()
  texts = 0
  for before, one, other in zip(whole, ended, served, strict=True):
    n = len(one.tokens)
    assert one.tokens.tolist() == before.tokens[:n].tolist()
    np.testing.assert_array_equal(one.logp, before.logp[:n])
    assert one.tokens.tolist() == other.tokens.tolist()
    np.testing.assert_array_equal(one.logp, other.logp)
    assert one.finish == other.finish
    if one.tokens[-1] != 1 and one.finish == engine.STOP:
      texts += 1
      assert read(one.tokens).endswith(('aa', 'b.'))
  assert texts > 3


def test_engines_without_text_refuse(folder):
  loaded = hf.load(folder)
  settings = {'slots': 2, 'context': 32, 'seed': 0}
  message = r"stop_text is \('aa', 'b.'\), but this engine knows no text"
  for kind in (local.LocalEngine, continuous.ContinuousEngine):
    made = kind(loaded.model, loaded.params, **settings)
    with pytest.raises(ValueError, match=message):
      made.generate(requests(1), ENDS)
  with serving.running(folder, ids_only=True) as http:
    client = sglang.connect(
      [str(http.base_url)], vocab=loaded.model.vocab, context=32, seed=7
    )
    with pytest.raises(ValueError, match=message):
      client.generate(requests(1), ENDS)
    client.close()
