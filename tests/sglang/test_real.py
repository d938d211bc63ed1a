"""arl's client against the real SGLang, on a CPU, in float32."""

import asyncio
import functools
import threading
import time

import httpx
import jax
import numpy as np
import pytest
import real
import tiny

from arl.models import transformer
from arl.rollout import engine, local, stop_text
from arl.rollout.sglang import worker as sglang_worker
from arl.train import sync

SIZE = real.SIZES['qwen3']
PLAIN = engine.Sampling()
LONG = engine.Request((3, 4, 5, 6), 400, (9, 9))


@pytest.fixture(scope='module')
def ours():
  """Two engines in process, with different weights."""
  return [real.embedded(SIZE, real.params(SIZE, seed)) for seed in (0, 1)]


@pytest.fixture
def client(url, tmp_path):
  """A client; the server holds the weights of seed 0."""
  made = real.connect(url, limit=8)  # what a server on a CPU runs at a time
  publish(made, 0, tmp_path)
  yield made
  made.close()


def publish(made, seed, folder, mode=sync.RETRACT):
  version = made.version + 1
  sync.disk(
    made,
    real.params(SIZE, seed),
    version,
    size=SIZE,
    folder=folder,
    probe=real.probe(),
    mode=mode,
  )
  return version


def test_greedy_tokens_are_those_of_the_engine_in_process(client, ours):
  real.check_greedy(client, ours[0])


@pytest.mark.parametrize('temperature', [0.7, 1.0, 1.5])
def test_log_probs_are_those_sampled_from(client, ours, temperature):
  real.check_log_probs(client, ours[0], temperature)


def test_scores_are_at_temperature_1_and_use_no_cache(client, ours):
  rows = [request.tokens for request in real.requests()]
  for mine, theirs in zip(ours[0].score(rows, 1.0), client.score(rows, 1.0)):
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=real.CLOSE)


def test_seeds_are_obeyed_and_differ_by_request(client):
  group = [engine.Request((2, 3, 4), 24, (0, i)) for i in range(16)]
  first = client.generate(group, PLAIN)
  assert len({tuple(sample.tokens.tolist()) for sample in first}) == 16
  for a, b in zip(first, client.generate(group, PLAIN)):
    np.testing.assert_array_equal(a.tokens, b.tokens)


def test_a_stop_token_belongs_to_its_sample(client):
  sampling = PLAIN._replace(stop=tuple(range(0, 64, 2)) + (1,))
  samples = client.generate(real.requests(16), sampling)
  stopped = [s for s in samples if s.finish == engine.STOP]
  assert len(stopped) >= 15
  assert all(int(s.tokens[-1]) in sampling.stop for s in stopped)


def test_a_text_ends_a_sample_where_it_ends_the_engines(client):
  read = tiny.tokenizer().decode
  made = local.LocalEngine(
    transformer.make(SIZE),
    real.params(SIZE, 0),
    slots=8,
    context=256,
    seed=real.SEED,
    read=read,
  )
  sampling = engine.Sampling(
    temperature=0, stop=real.STOP, stop_text=('a', 'c')
  )
  mine = made.generate(real.requests(16), sampling)
  theirs = client.generate(real.requests(16), sampling)
  for a, b in zip(mine, theirs, strict=True):
    assert (a.tokens.tolist(), a.finish) == (b.tokens.tolist(), b.finish)
  drawn = client.generate(
    real.requests(16), sampling._replace(temperature=1.0, stop=())
  )
  for sample in drawn:
    found = stop_text.find(sample.tokens.tolist(), sampling.stop_text, read)
    if sample.finish == engine.STOP:
      assert found and found[0] == len(sample.tokens)
    else:
      assert found is None
  assert {sample.finish for sample in drawn} == {engine.STOP, engine.LENGTH}


def test_no_stop_ids_means_none(client):
  samples = client.generate(real.requests(8, most=60), PLAIN)
  assert {sample.finish for sample in samples} == {engine.LENGTH}


def test_an_end_token_that_is_no_stop_id_is_an_error(client):
  many = [engine.Request((2, 3), 200, (5, i)) for i in range(8)]
  with pytest.raises(sglang_worker.ServerError, match='its own end token 1'):
    client.generate(many, PLAIN._replace(stop=(63,)))


def test_turns_use_what_was_computed(client):
  (request,) = real.requests(1)
  (sample,) = client.generate([request], PLAIN)
  after = request._replace(
    tokens=(*real.whole(request, sample), 7), path=(0, 0)
  )
  (again,) = client.generate([after], PLAIN)
  assert again.cached >= len(request.tokens)


def test_what_kills_a_server_is_not_sent(client):
  with pytest.raises(ValueError, match='knows ids 0 to 63'):
    client.generate([engine.Request((3, 64), 4, (0,))], PLAIN)
  assert len(client.generate(real.requests(1), PLAIN)) == 1


def test_truncated_log_probs_are_those_of_what_was_kept(client, ours):
  cut = PLAIN._replace(top_p=0.8)
  samples = client.generate(real.requests(), cut)
  rows = [real.whole(r, s) for r, s in zip(real.requests(), samples)]
  for request, sample, logp in zip(
    real.requests(), samples, ours[0].score(rows, 1.0)
  ):
    kept = np.exp(logp[len(request.tokens) :] - sample.logp)
    assert np.all((kept > 0.8 - 1e-4) & (kept < 1 + 1e-4))
  (one,) = client.generate(real.requests(1), PLAIN._replace(top_k=1))
  np.testing.assert_allclose(one.logp, 0, atol=1e-6)


def test_a_stream_is_the_sample(client):
  (request,) = real.requests(1)
  (sample,) = client.generate([request], PLAIN)

  async def pieces():
    return [piece async for piece in client.stream(request, PLAIN)]

  *_, last = asyncio.run(pieces())
  np.testing.assert_array_equal(last.tokens, sample.tokens)
  np.testing.assert_allclose(last.logp, sample.logp, atol=real.CLOSE)
  np.testing.assert_array_equal(last.versions, sample.versions)


def running(url):
  (load,) = httpx.get(url + '/v1/loads').json()['loads']
  return load['num_running_reqs'] + load['num_waiting_reqs']


def idle(url):
  """Waits until the server has nothing to do."""
  end = time.monotonic() + 10
  while running(url):
    assert time.monotonic() < end
    time.sleep(0.2)


@pytest.mark.parametrize('way', ['sample', 'stream'])
def test_a_request_that_is_given_up_does_not_go_on(client, url, way):
  async def give_up():
    if way == 'sample':
      await asyncio.wait_for(client.sample(LONG, PLAIN), 0.3)
    async for _ in client.stream(LONG, PLAIN):
      raise TimeoutError

  with pytest.raises(TimeoutError):
    asyncio.run(give_up())
  idle(url)


def during(client, act, wanted=(LONG,)):
  """What requests become during which something else happens."""
  found = []
  thread = threading.Thread(
    target=lambda: found.extend(client.generate(wanted, PLAIN))
  )
  thread.start()
  time.sleep(0.5)
  act()
  thread.join()
  return found


def test_an_abort_keeps_the_tokens(client, ours):
  everything = {'abort_all': True}
  (sample,) = during(
    client, lambda: client.control('/abort_request', everything)
  )
  assert sample.finish == engine.ABORT
  assert 0 < len(sample.tokens) == len(sample.versions) < 400
  (logp,) = ours[0].score([real.whole(LONG, sample)[:256]], 1.0)
  n = min(len(sample.tokens), 252)
  np.testing.assert_allclose(sample.logp[:n], logp[4:], rtol=0, atol=real.CLOSE)


def test_an_abort_stops_every_name_that_begins_so(url):
  with httpx.Client(base_url=url, timeout=60) as http:
    answers = []

    def ask(rid):
      body = {
        'input_ids': [3, 4],
        'rid': rid,
        'sampling_params': {'max_new_tokens': 400, 'ignore_eos': True},
      }
      answers.append(http.post('/generate', json=body).json())

    names = ['a-1', 'a-10']
    threads = [threading.Thread(target=ask, args=(n,)) for n in names]
    for thread in threads:
      thread.start()
    time.sleep(0.5)
    http.post('/abort_request', json={'rid': 'a-1'})
    for thread in threads:
      thread.join()
    kinds = [a['meta_info']['finish_reason']['type'] for a in answers]
    assert kinds == ['abort', 'abort']


@pytest.mark.parametrize('how', ['disk', 'tensors'])
@pytest.mark.parametrize('mode', sync.MODES)
def test_weights_are_published_while_a_request_runs(
  client, ours, how, mode, tmp_path
):
  old, new = client.version, client.version + 1
  transfer = functools.partial(
    getattr(sync, how), size=SIZE, probe=real.probe()
  )
  if how == 'disk':
    transfer = functools.partial(transfer, folder=tmp_path)
  changed = real.params(SIZE, 1)
  several = [LONG._replace(path=(9, i)) for i in range(16)]
  samples = during(
    client, lambda: transfer(client, changed, new, mode=mode), several
  )
  seen = [sample.versions.tolist() for sample in samples]
  assert all(versions == sorted(versions) for versions in seen)
  assert set().union(*seen) <= {old, new}
  aborted = [s for s in samples if s.finish == engine.ABORT]
  if mode == sync.ABORT:
    assert any(len(sample.tokens) for sample in aborted)
    assert {v for s in aborted for v in s.versions.tolist()} == {old}
  else:
    assert not aborted
    assert any(set(versions) == {old, new} for versions in seen)
  real.check_greedy(client, ours[1])
  # The prompts were not answered from what the old weights had computed.
  real.check_log_probs(client, ours[1], 1.0)


def test_weights_with_names_that_nobody_knows_stop_the_run(client, monkeypatch):
  encode, norm = sync.sync_tensors.encode, 'model.norm.weight'

  def renamed(tensors):
    others = {name: x for name, x in tensors.items() if name != norm}
    return encode({**others, 'model.norm.nobody': tensors[norm]})

  monkeypatch.setattr(sync.sync_tensors, 'encode', renamed)
  with pytest.raises(sync.SyncError, match='log-probs differ'):
    sync.tensors(
      client,
      real.params(SIZE, 1),
      client.version + 1,
      size=SIZE,
      probe=real.probe(),
    )


def test_weights_that_are_not_there_stop_the_run(client, monkeypatch, tmp_path):
  monkeypatch.setattr(sync.hf, 'save', lambda *args: None)
  monkeypatch.setattr(sync.hf_files, 'read', lambda folder: {})
  monkeypatch.setattr(sync, 'check_names', lambda *args: None)
  with pytest.raises(sync.SyncError, match='update_weights_from_disk'):
    publish(client, 1, tmp_path)
  monkeypatch.undo()
  publish(client, 0, tmp_path)  # and the server is not left paused


def test_the_probe_is_the_trainers_own():
  params = real.params(SIZE, 0)
  (wanted,) = real.embedded(SIZE, params).score([real.probe().ids], 1.0)
  logp = jax.device_get(real.probe().logp(params))
  np.testing.assert_allclose(logp, wanted, rtol=0, atol=real.CLOSE)
