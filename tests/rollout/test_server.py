"""The embedded server's native API, against what the real one answers."""

import concurrent.futures
import json
import pathlib
import re

import numpy as np
import pytest

from arl.models import hf
from arl.rollout import engine, local
from tests import tiny
from tests.rollout import serving

GOLDEN = pathlib.Path(__file__).parents[1] / 'golden' / 'sglang'
IDS = [2, 3, 4, 5, 6, 7]


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  shape = tiny.size(32)
  return tiny.write_model(tmp_path_factory.mktemp('m') / 'model', shape=shape)


@pytest.fixture(scope='module')
def client(folder):
  with serving.running(folder) as client:
    yield client


@pytest.fixture(scope='module')
def slow(folder):
  loaded = hf.load(folder)
  return local.LocalEngine(
    loaded.model, loaded.params, slots=8, context=32, seed=7
  )


def ask(client, ids=IDS, **fields):
  """The answer to a /generate; sampling parameters by `p_` and their name."""
  given = {k[2:]: v for k, v in fields.items() if k.startswith('p_')}
  body = {k: v for k, v in fields.items() if not k.startswith('p_')}
  body['sampling_params'] = {'ignore_eos': True, 'max_new_tokens': 6, **given}
  answer = client.post('/generate', json={'input_ids': ids, **body})
  assert answer.status_code == 200, answer.text
  return answer.json()


def golden():
  """Exchanges with SGLang 0.5.23, recorded on a CPU with tiny models."""
  return json.loads((GOLDEN / 'answers.json').read_text())


# What only a server with --enable-metrics tells.
METRICS = {
  'storage_prefetch_wait', 'storage_staging_wait', 'forward_entry_time',
  'prefill_finished_time', 'queue_time', 'request_received_ts',
  'first_token_latency', 'api_server_dispatch_finish_ts',
  'request_finished_ts', 'decode_throughput',
}  # fmt: skip


def spelled(request):
  """A recorded request in the ids and letters of the tiny model."""
  if isinstance(request, dict):
    return {k: spelled(v) for k, v in request.items()}
  if isinstance(request, list):
    return [spelled(v) for v in request]
  if type(request) is int and request >= 300:
    return request - 298
  return 'abc' if request == 'hello' else request


def keys(tree):
  """The shape of an answer: keys of objects, and the first of lists."""
  if isinstance(tree, dict):
    optional = (
      'cached_tokens_details',
      'prompt_tokens_details',
      'top_logprobs',  # its keys are texts
    )
    return {
      k: None if k in optional else keys(v)
      for k, v in tree.items()
      if k not in METRICS
    }
  if isinstance(tree, list):
    return [keys(tree[0])] if tree else []
  return None


@pytest.mark.parametrize('told', golden(), ids=lambda told: told['name'])
def test_answers_have_the_keys_of_the_real_ones(client, told):
  request = spelled(told['request'])
  request.pop('weight_version', None)  # which it ignores, and this one refuses
  made = client.post(told['path'], json=request)
  assert made.status_code == 200, made.text
  assert keys(made.json()) == keys(told['answer'])


def test_the_tokens_of_the_engine_in_process(client, slow):
  rng = np.random.default_rng(0)
  asked = [
    engine.Request(tuple(rng.integers(0, 32, n).tolist()), 32 - n, (3, n, 0))
    for n in range(1, 25)
  ]
  sampling = engine.Sampling(temperature=1.3, stop=(1, 9))
  wanted = slow.generate(asked, sampling)

  def one(request):
    return ask(
      client, list(request.tokens), return_logprob=True, return_entropy=True,
      p_temperature=1.3, p_stop_token_ids=[1, 9], p_ignore_eos=False,
      p_max_new_tokens=request.max_tokens,
      p_custom_params={'path': list(request.path)},
    )  # fmt: skip

  with concurrent.futures.ThreadPoolExecutor(12) as pool:
    made = list(pool.map(one, asked))
  for answer, sample in zip(made, wanted):
    assert answer['output_ids'] == sample.tokens.tolist()
    meta = answer['meta_info']
    logp = [entry[0] for entry in meta['output_token_logprobs']]
    np.testing.assert_allclose(logp, sample.logp, atol=1e-5)
    assert len(meta['output_token_entropy']) == len(logp)
    assert meta['finish_reason']['type'] == sample.finish


def test_the_stop_token_belongs_to_the_ids(client):
  ids = list(range(32))
  made = ask(
    client, p_stop_token_ids=ids, p_ignore_eos=False, return_logprob=True
  )
  (last,) = made['output_ids']
  meta = made['meta_info']
  assert meta['finish_reason'] == {'type': 'stop', 'matched': last}
  assert meta['completion_tokens'] == len(meta['output_token_logprobs']) == 1
  assert made['text'] == ''


def test_seeds_decide(client):
  same = [ask(client, p_sampling_seed=5)['output_ids'] for _ in range(2)]
  assert same[0] == same[1]
  assert ask(client, p_custom_params={'path': [5]})['output_ids'] == same[0]
  seeded = ask(client, p_sampling_seed=5, p_n=4)
  unseeded = ask(client, p_n=4) + [ask(client) for _ in range(4)]
  batch = ask(client, [IDS] * 4, p_sampling_seed=5)
  for several in (seeded, unseeded, batch):
    ids = [tuple(each['output_ids']) for each in several]
    assert len(set(ids)) == len(ids)
  again = ask(client, p_sampling_seed=5, p_n=4)
  assert [a['output_ids'] for a in again] == [s['output_ids'] for s in seeded]


def test_log_probs_are_of_what_was_sampled(client):
  made = ask(
    client, p_top_k=3, p_temperature=1.5, return_logprob=True,
    return_sampling_mask=True, top_logprobs_num=32, logprob_start_len=0,
  )  # fmt: skip
  meta = made['meta_info']
  for entry, kept, told, top in zip(
    meta['output_token_logprobs'], meta['output_token_sampling_mask'],
    meta['output_token_sampling_logprobs'], meta['output_top_logprobs'],
    strict=True,
  ):  # fmt: skip
    assert entry[1] in kept and len(kept) == 3
    assert entry[0] == told
    whole = {id: logp for logp, id, _ in top}
    mass = np.log(sum(np.exp(whole[id]) for id in kept))
    np.testing.assert_allclose(told, whole[entry[1]] - mass, atol=1e-5)
  # Scoring tells the same at temperature 1.
  ids = IDS + made['output_ids']
  plain = ask(client, IDS, p_custom_params={'path': [1]}, return_logprob=True)
  ids = IDS + plain['output_ids']
  scored = ask(
    client, ids, p_max_new_tokens=0, return_logprob=True, logprob_start_len=5,
    token_ids_logprob=[4, 9],
  )['meta_info']  # fmt: skip
  entries = scored['input_token_logprobs']
  assert entries[0] == [None, 7, None] and len(entries) == 7
  wanted = [e[0] for e in plain['meta_info']['output_token_logprobs']]
  np.testing.assert_allclose([e[0] for e in entries[1:]], wanted, atol=1e-5)
  assert scored['finish_reason'] == {'type': 'length', 'length': 0}
  watched = scored['input_token_ids_logprobs']
  assert watched[0] is None
  assert [[i for _, i, _ in at] for at in watched[1:]] == [[4, 9]] * 6


def test_a_stream_is_cumulative(client):
  body = {
    'input_ids': IDS,
    'stream': True,
    'return_logprob': True,
    'sampling_params': {
      'max_new_tokens': 20, 'ignore_eos': True, 'sampling_seed': 3,
    },
  }  # fmt: skip
  answer = client.post('/generate', json=body)
  assert answer.headers['content-type'].startswith('text/event-stream')
  pieces = serving.events(answer)
  assert len(pieces) > 3
  whole = client.post('/generate', json={**body, 'stream': False}).json()
  for piece in pieces:
    ids = piece['output_ids']
    assert ids == whole['output_ids'][: len(ids)]
    meta = piece['meta_info']
    assert len(meta['output_token_logprobs']) == len(ids)
    assert (meta['finish_reason'] is None) == ('weight_versions' not in meta)
  assert pieces[-1]['output_ids'] == whole['output_ids']
  several = serving.events(
    client.post('/generate', json={**body, 'input_ids': [IDS, IDS[:2]]})
  )
  assert {piece['index'] for piece in several} == {0, 1}


def test_stop_strings_cut_where_they_end(client):
  long = ask(client, p_max_new_tokens=20, p_sampling_seed=9)
  # The tokenizer spells a letter a token; the model knows more ids than it.
  text = long['text']
  assert len(text) > 2
  stop = text[1:3]
  made = ask(
    client, p_max_new_tokens=20, p_sampling_seed=9, p_stop=[stop],
    return_logprob=True,
  )  # fmt: skip
  assert made['text'] == text[: text.find(stop)]
  n = len(made['output_ids'])
  assert made['output_ids'] == long['output_ids'][:n]
  meta = made['meta_info']
  assert meta['finish_reason'] == {'type': 'stop', 'matched': stop}
  assert len(meta['output_token_logprobs']) == n == meta['completion_tokens']
  kept = ask(
    client, p_max_new_tokens=20, p_sampling_seed=9, p_stop=[stop],
    p_no_stop_trim=True,
  )  # fmt: skip
  assert kept['text'] == text[: text.find(stop) + 2]


REFUSED = [
  (
    {'top_logprob_num': 3},
    "'top_logprob_num'; did you mean 'top_logprobs_num'",
  ),
  ({'sampling_params': {'max_tokens': 3}}, "unknown field 'max_tokens'"),
  ({'sampling_params': {'frequency_penalty': 1}}, 'frequency_penalty = 1 can'),
  ({'sampling_params': {'json_schema': '{}'}}, 'json_schema'),
  ({'sampling_params': {'temperature': -1}}, 'non-negative finite number'),
  ({'sampling_params': {'top_p': 0}}, 'top_p is 0'),
  ({'sampling_params': {'max_new_tokens': 27}}, 'You requested a total of 33'),
  ({'sampling_params': {'n': 0}}, 'n must be at least 1'),
  ({'sampling_params': {'sampling_seed': -1}}, 'whole numbers from 0'),
  ({'sampling_params': {'stop_token_ids': [32]}}, 'stop_token_ids holds id 32'),
  ({'input_ids': [1, 32]}, 'input_ids holds id 32, but the model knows'),
  ({'input_ids': [-1]}, 'holds id -1'),
  ({'input_ids': []}, 'is empty or longer'),
  ({'input_ids': 'abc'}, 'input_ids must be a list of ids'),
  ({'input_ids': [2] * 33}, 'The input .33 tokens. is empty or longer'),
  ({'input_ids': None}, 'Either text or input_ids should be provided'),
  ({'return_routed_experts': True}, 'a model that has none'),
  ({'return_hidden_states': True}, 'return_hidden_states = True cannot'),
  ({'stream': 'yes'}, 'stream should be bool'),
  ({'weight_version': 'x'}, "unknown field 'weight_version'"),
  ({'lora_path': 'x'}, "lora_path = 'x' cannot be honoured"),
  ({'text': 'Z', 'input_ids': None}, 'cannot encode'),
]


@pytest.mark.parametrize('fields, message', REFUSED)
def test_what_cannot_be_honoured_is_refused_by_name(client, fields, message):
  given = {'input_ids': IDS, 'sampling_params': {'max_new_tokens': 2}}
  answer = client.post('/generate', json={**given, **fields})
  assert answer.status_code == 400
  error = answer.json()['error']['message']
  assert re.search(message, error), error


def test_bad_bodies(client):
  for text in ('{', '[]', '3', ''):
    answer = client.post('/generate', content=text)
    assert answer.status_code == 400 and answer.json()['error']['message']
  assert client.get('/nowhere').status_code == 404


def test_text_in(client):
  made = client.post(
    '/generate',
    json={
      'text': 'abc',
      'sampling_params': {'max_new_tokens': 2},
      'return_prompt_token_ids': True,
    },
  ).json()
  assert made['prompt_token_ids'] == [2, 3, 4]
  told = client.post('/tokenize', json={'prompt': 'abc'}).json()
  assert told == {'tokens': [2, 3, 4], 'count': 3, 'max_model_len': 32}


def test_without_a_tokenizer(folder):
  with serving.running(folder, ids_only=True) as client:
    made = ask(client)
    assert 'text' not in made and len(made['output_ids']) == 6
    for fields in ({'text': 'a'}, {'input_ids': IDS}):
      body = {**fields, 'sampling_params': {'stop': ['a']}}
      answer = client.post('/generate', json=body)
      assert answer.status_code == 400 and 'tokenizer' in answer.text
    answer = client.post(
      '/v1/completions',
      json={'prompt': IDS, 'max_tokens': 2, 'return_token_ids': True},
    ).json()
    assert len(answer['choices'][0]['token_ids']) == 2
