"""The client of SGLang, against a server that speaks as SGLang does."""

import asyncio
import contextlib
import threading
import time

import numpy as np
import pytest
import served

from arl.rollout import engine
from arl.rollout.sglang import worker as sglang_worker
from experiments.studies import pretend

PLAIN = engine.Sampling()


@pytest.fixture
def one():
  with served.serving(pace=0.001) as (client, _, (model,)):
    yield client, model


def test_samples_are_those_of_their_requests_in_order(one):
  client, model = one
  wanted = served.requests(40)
  samples = client.generate(wanted, PLAIN)
  for request, sample in zip(wanted, samples, strict=True):
    served.check(client, request, sample)
    assert sample.finish == engine.LENGTH
    assert sample.versions.tolist() == [0] * 12
    assert sample.cached == 0
  bodies = served.asked(model)[2:]  # after those of the greeting
  assert len({body['rid'] for body in bodies}) == 40
  assert len({len(body['rid']) for body in bodies}) == 1
  seeds = {body['sampling_params']['sampling_seed'] for body in bodies}
  assert len(seeds) == 40


def test_a_stop_token_is_the_last_of_its_sample(one):
  client, _ = one
  stop = tuple(range(0, pretend.VOCAB, 4))
  samples = client.generate(served.requests(30), PLAIN._replace(stop=stop))
  stopped = [s for s in samples if s.finish == engine.STOP]
  assert len(stopped) > 10
  for request, sample in zip(served.requests(30), samples):
    served.check(client, request, sample, stop)


def test_what_changes_the_distribution_is_always_said(one):
  client, model = one
  warm = PLAIN._replace(temperature=0.7, stop=(3,))
  client.generate(served.requests(1), warm)
  (body,) = served.asked(model)[2:]
  assert body['sampling_params'] == {
    'max_new_tokens': 12,
    'temperature': 0.7,
    'top_p': 1.0,
    'top_k': -1,
    'min_p': 0.0,
    'frequency_penalty': 0.0,
    'presence_penalty': 0.0,
    'repetition_penalty': 1.0,
    'stop': [],
    'skip_special_tokens': False,
    'stop_token_ids': [3],
    'ignore_eos': False,
    'sampling_seed': body['sampling_params']['sampling_seed'],
  }
  assert 'text' not in body


def test_arls_own_server_is_told_the_path():
  with served.serving(engine='arl') as (client, _, (model,)):
    client.generate(served.requests(1), PLAIN)
  (body,) = served.asked(model)
  assert body['sampling_params']['custom_params'] == {'path': [5, 0]}
  assert 'extra_key' not in body


def test_scores_are_those_of_the_ids(one):
  client, _ = one
  sequences = [[1, 2, 3], [pretend.VOCAB - 1] * 4, [5]]
  for ids, logp in zip(sequences, client.score(sequences, 1.0)):
    wanted = [0, *pretend.logp(0, ids)[1:]]
    np.testing.assert_allclose(logp, wanted, rtol=1e-6)
  with pytest.raises(ValueError, match='SGLang scores at 1 alone'):
    client.score(sequences, 0.7)


def test_what_a_server_would_die_of_is_not_sent(one):
  client, model = one
  sent = len(model.calls)
  bad = [
    (engine.Request((1, 64), 3, (0,)), PLAIN, 'knows ids 0 to 63'),
    (engine.Request((-1,), 3, (0,)), PLAIN, 'knows ids 0 to 63'),
    (engine.Request((), 3, (0,)), PLAIN, 'has 0 tokens'),
    (engine.Request((1,), 512, (0,)), PLAIN, 'ask for 1 to 511'),
    (served.requests(1)[0], PLAIN._replace(stop=(64,)), 'sampling.stop'),
    (served.requests(1)[0], PLAIN._replace(top_p=0.0), 'top_p'),
    (served.requests(1)[0], PLAIN._replace(entropy=True), 'sampling.entropy'),
    (served.requests(1)[0], PLAIN._replace(experts=True), 'sampling.experts'),
  ]
  for request, sampling, what in bad:
    with pytest.raises(ValueError, match=what):
      client.generate([request], sampling)
  with pytest.raises(ValueError, match='knows ids 0 to 63'):
    client.score([[64]], 1.0)
  assert len(model.calls) == sent


def test_a_truncation_whose_log_probs_are_not_told_is_refused():
  with served.serving(keywords={'vocab': 5000}) as (client, _, _):
    with pytest.raises(ValueError, match='set rollout.top_k'):
      client.generate(served.requests(1), PLAIN._replace(top_p=0.9))
    greedy = PLAIN._replace(top_p=0.9, temperature=0.0)
    assert len(client.generate(served.requests(1), greedy)) == 1


def test_experts_are_decoded_by_layer():
  told = {'experts': (pretend.LAYERS, pretend.CHOSEN)}
  with served.serving(keywords=told, experts=4) as (client, _, _):
    request = engine.Request((1, 2, 3), 4, (0,))
    (sample,) = client.generate([request], PLAIN._replace(experts=True))
    assert sample.experts.shape == (6, pretend.LAYERS, pretend.CHOSEN)
    assert sample.experts.dtype == np.int32
    assert sample.experts.ravel().tolist() == [0, 1, 2, 3] * 6


def test_experts_that_do_not_come_are_missed():
  told = {'experts': (pretend.LAYERS, pretend.CHOSEN)}
  with (
    served.serving(keywords=told) as (client, _, _),
    pytest.raises(sglang_worker.ServerError, match='return-routed-experts'),
  ):
    client.generate(served.requests(1), PLAIN._replace(experts=True))


def test_one_coroutine_a_request_from_any_loop(one):
  client, _ = one

  async def all_of(wanted):
    return await asyncio.gather(*(client.sample(r, PLAIN) for r in wanted))

  wanted = served.requests(10)
  for request, sample in zip(wanted, asyncio.run(all_of(wanted))):
    served.check(client, request, sample)


def test_a_stream_grows_to_the_sample(one):
  client, _ = one

  async def pieces():
    request = served.requests(1)[0]
    return [piece async for piece in client.stream(request, PLAIN)]

  grown = asyncio.run(pieces())
  assert [len(piece.tokens) for piece in grown] == list(range(1, 13))
  assert [piece.finish for piece in grown] == [''] * 11 + [engine.LENGTH]
  assert set(grown[3].versions.tolist()) == {-1}
  served.check(client, served.requests(1)[0], grown[-1])
  assert grown[-1].versions.tolist() == [0] * 12


@pytest.mark.parametrize('way', ['cancelled', 'closed', 'timeout'])
def test_nothing_is_left_running(way):
  keywords = {'timeout': 0.3 if way == 'timeout' else 5.0}
  with served.serving(pace=0.1, keywords=keywords) as (client, _, (model,)):
    request = engine.Request((1, 2), 500, (0,))

    async def leave():
      if way == 'closed':
        async for _ in client.stream(request, PLAIN):
          break
        return
      with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(client.sample(request, PLAIN), 0.5)

    asyncio.run(leave())
    served.wait_for(lambda: not model.running)
    assert any(path == '/abort_request' for path, _ in model.calls)


def test_turns_of_a_conversation_go_to_one_server():
  with served.serving(count=3) as (client, _, models):
    for turn in range(5):
      wanted = [
        request._replace(tokens=(i, 1), path=(5, i, turn))
        for i, request in enumerate(served.requests(30))
      ]
      client.generate(wanted, PLAIN)
    homes = [
      {tuple(body['input_ids']) for body in served.asked(model)[2:]}
      for model in models
    ]
    assert all(homes)
    assert sum(map(len, homes)) == len(set.union(*homes))


def test_no_more_than_the_limit_at_a_time():
  most = 0
  with served.serving(pace=0.002, keywords={'limit': 4}) as (
    client,
    _,
    (model,),
  ):
    plain = model.twist

    def count(body, answer):
      nonlocal most
      most = max(most, len(model.running))
      return plain(body, answer)

    model.twist = count
    client.generate(served.requests(40), PLAIN)
  assert 1 < most <= 4


def test_control_reaches_every_server():
  with served.serving(count=2) as (client, servers, models):
    client.control('/pause_generation', {'mode': 'retract'})
    assert all(model.held is not None for model in models)
    client.control('/continue_generation', {})
    servers[1].kill()
    with pytest.raises(sglang_worker.ServerError, match=servers[1].url):
      client.control('/pause_generation', {'mode': 'retract'})


def test_ctrl_c_or_an_error_aborts_the_others(one):
  client, model = one
  model.pace = 0.02
  model.twist = lambda body, answer: {**answer, 'output_ids': None}
  short = engine.Request((1,), 1, (0, 0))
  long = [engine.Request((2, i), 400, (0, i)) for i in range(1, 9)]
  with pytest.raises(sglang_worker.ServerError, match='output_ids'):
    client.generate([short, *long], PLAIN)
  served.wait_for(lambda: not model.running)


def test_interrupted_requests_keep_what_they_have(one):
  client, model = one
  model.pace = 0.02
  found = []
  request = engine.Request((1,), 400, (0,))
  running = threading.Thread(
    target=lambda: found.extend(client.generate([request], PLAIN))
  )
  running.start()
  time.sleep(0.3)
  client.control('/abort_request', {'abort_all': True})
  running.join()
  (sample,) = found
  assert sample.finish == engine.ABORT
  assert 0 < len(sample.tokens) == len(sample.versions) < 400


def test_without_a_way_to_publish(one):
  with pytest.raises(ValueError, match='connect'):
    one[0].set_params({}, 1)
