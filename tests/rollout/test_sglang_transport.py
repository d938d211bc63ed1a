"""Connections that break and servers that die, and what is asked again."""

import threading

import pytest
import served

from arl.rollout import engine
from arl.rollout.sglang import worker as sglang_worker
from experiments.studies import faulty, pretend

PLAIN = engine.Sampling()
REQUEST = engine.Request((1, 2, 3), 4, (0, 0))


@pytest.mark.parametrize('fault', faulty.FAULTS)
def test_a_fault_of_the_transport_changes_nothing(fault):
  choose = faulty.sometimes(0.3, [fault], seed=1)
  quick = {'timeout': 0.5} if fault == 'hang' else {}
  wanted = served.requests(60)
  with served.serving(pace=0.0, keywords=quick) as (client, servers, _):
    servers[0].choose = choose
    samples = client.generate(wanted, PLAIN)
    for request, sample in zip(wanted, samples, strict=True):
      served.check(client, request, sample)
    assert servers[0].seen[fault] > 3


def test_requests_of_a_server_that_dies_go_to_another():
  wanted = [request._replace(max_tokens=60) for request in served.requests(30)]
  with served.serving(pace=0.01, count=2) as (client, servers, models):
    killer = threading.Timer(0.2, servers[0].kill)
    killer.start()
    samples = client.generate(wanted, PLAIN)
    killer.join()
    for request, sample in zip(wanted, samples, strict=True):
      served.check(client, request, sample)
    assert not client.workers[0].alive
    assert sum(models[1].computed.values()) > 15


def test_a_server_that_comes_back_is_asked_again():
  with served.serving() as (client, (server,), _):
    server.kill()
    timer = threading.Timer(0.5, server.start)
    timer.start()
    samples = client.generate(served.requests(10), PLAIN)
    timer.join()
    for request, sample in zip(served.requests(10), samples):
      served.check(client, request, sample)


def test_a_server_that_comes_back_with_old_weights_is_not():
  with served.serving(count=2) as (client, servers, models):
    client.holds(3)
    models[1].version = '3'
    servers[0].kill()
    client.generate(served.requests(20), PLAIN)
    with pytest.warns(UserWarning, match='came back with weights') as told:
      servers[0].start()
      served.wait_for(lambda: told.list)
    before = len(served.asked(models[0]))
    samples = client.generate(served.requests(20), PLAIN)
    assert {v for s in samples for v in s.versions.tolist()} == {3}
    assert len(served.asked(models[0])) == before
    models[0].version = '3'
    served.wait_for(lambda: client.workers[0].alive)


def test_no_server_for_too_long_is_an_error():
  told = {'patience': 0.3}
  with served.serving(keywords=told) as (client, (server,), _):
    server.kill()
    with pytest.raises(sglang_worker.ServerError, match='no server could be'):
      client.generate([REQUEST], PLAIN)


SHAPES = [
  {'error': {'message': 'too long'}},
  {'error': 'too long'},
  {'object': 'error', 'message': 'too long', 'code': 400},
]


@pytest.mark.parametrize('body', SHAPES)
def test_a_refusal_is_told_and_not_tried_again(body):
  tries = []
  with served.serving() as (client, (server,), (model,)):

    async def respond(path, asked):
      if path == '/generate':
        tries.append(asked)
        return pretend._json(body, 400)
      return await model.respond(path, asked)

    server._respond = respond
    with pytest.raises(sglang_worker.ServerError, match='400, too long'):
      client.generate([REQUEST], PLAIN)
  assert len(tries) == 1
