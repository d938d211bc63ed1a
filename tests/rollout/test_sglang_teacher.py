"""A teacher on a server: what it says, and that it spells as we do."""

import jax
import numpy as np
import pytest
import tiny as tiny_lib
import tokenizers as tokenizers_lib

from arl.models import hf, tokenizers
from arl.rollout.sglang import teacher
from arl.rollout.sglang import worker as sglang_worker
from tests.rollout import serving

ROWS = ([2, 3, 4, 5, 6, 7], [7, 2, 7])


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  made = tmp_path_factory.mktemp('teacher') / 'model'
  return tiny_lib.write_model(made, seed=4)


@pytest.fixture(scope='module')
def server(folder):
  with serving.running(folder) as client:
    yield str(client.base_url)


def met(server, tokenizer=None, vocab=8, context=32):
  return teacher.connect(
    server,
    tokenizer or tiny_lib.tokenizer(),
    vocab=vocab,
    context=context,
    patience=1.0,
  )


def by_hand(folder):
  """Log-probs [n, V] at each place of each row."""
  loaded = hf.load(folder)
  made = []
  for ids in ROWS:
    tokens = np.array([ids])
    where = np.arange(len(ids))[None], np.ones_like(tokens)
    hidden = loaded.model.apply(loaded.params, tokens, *where)
    logits = loaded.model.logits(loaded.params, hidden[0])
    made.append(np.asarray(jax.nn.log_softmax(logits))[:-1])
  return made


def test_it_says_what_the_model_does(server, folder):
  speaker = met(server)
  said = speaker.say(ROWS, top=3)
  speaker.close()
  for ids, one, logs in zip(ROWS, said, by_hand(folder), strict=True):
    own = np.take_along_axis(logs, np.array(ids)[1:, None], 1)[:, 0]
    np.testing.assert_allclose(one.logp, [0, *own], atol=1e-5)
    assert one.ids.shape == one.top_logp.shape == (len(ids), 3)
    best = -np.sort(-logs, axis=1)[:, :3]
    np.testing.assert_allclose(one.top_logp[1:], best, atol=1e-5)
    picked = np.take_along_axis(logs, one.ids[1:], 1)
    np.testing.assert_allclose(picked, best, atol=1e-5)
    assert not np.any(one.top_logp[0]) and not np.any(one.ids[0])
    assert one.ids.dtype == np.int32 and one.top_logp.dtype == np.float32


def test_no_more_than_there_are_and_none_where_none_is_wanted(server):
  speaker = met(server)
  (all_, _), (none, _) = (speaker.say(ROWS, top=k) for k in (64, 0))
  speaker.close()
  assert all_.ids.shape == (6, 8) and none.ids.shape == (6, 0)
  np.testing.assert_allclose(np.exp(all_.top_logp[1:]).sum(1), 1, rtol=1e-5)


def test_what_it_cannot_read(server):
  speaker = met(server)
  with pytest.raises(ValueError, match='holds id 8, but the model knows'):
    speaker.say([[2, 8]], top=0)
  speaker.close()


@pytest.mark.parametrize('digest', [True, False])
def test_a_teacher_that_spells_in_other_tokens(server, monkeypatch, digest):
  get = sglang_worker.Worker.get

  async def without_digest(self, path):  # as SGLang, which tells none
    return {**await get(self, path), 'tokenizer_digest': None}

  if not digest:
    monkeypatch.setattr(sglang_worker.Worker, 'get', without_digest)
  met(server).close()
  words = 'vocabularies differ' if digest else 'status 400'
  with pytest.raises(sglang_worker.ServerError, match=words):
    met(server, tokenizers.characters())
  words = 'vocabularies differ' if digest else "'_!bacd[?].' has other ids"
  with pytest.raises(sglang_worker.ServerError, match=words):
    met(server, other_order())


def other_order():
  """The same tokens, two of which have changed places."""
  made = tiny_lib.tokenizer()
  text = made.backend_tokenizer.to_str()
  text = text.replace('"a":2', '"a":X').replace('"b":3', '"b":2')
  assert '"a":X' in text
  core = tokenizers_lib.Tokenizer.from_str(text.replace('"a":X', '"a":3'))
  return tokenizers.wrap(core, made.chat_template, '_', '!')


def test_a_teacher_that_reads_less(server):
  with pytest.raises(sglang_worker.ServerError, match='holds 32 tokens'):
    met(server, context=64)


def test_a_teacher_without_a_tokenizer(folder):
  with (
    serving.running(folder, ids_only=True) as client,
    pytest.raises(sglang_worker.ServerError, match='runs without a tokenizer'),
  ):
    met(str(client.base_url))


@pytest.mark.parametrize(
  'told, words',
  [
    (None, 'no 2 lists'),
    ([None], 'no 2 lists'),
    ([None, [[-1.0, 3, None]]], '1 of the 2 likeliest'),
    ([None, [[-2.0, 3, None], [-1.0, 2, None]]], 'out of order'),
  ],
)
def test_answers_that_are_none(told, words):
  with pytest.raises(ValueError, match=words):
    teacher.likeliest({'meta_info': {'input_top_logprobs': told}}, 2, 2)
