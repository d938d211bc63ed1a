"""Which servers a client accepts, and why not."""

import warnings

import pytest
import served

from arl.rollout import engine, sglang
from arl.rollout.sglang import worker as sglang_worker
from experiments.studies import faulty, pretend

PLAIN = engine.Sampling()

GREETINGS = {
  'another vocabulary': ({}, {'vocab': 65}, 'serve the model that is trained'),
  'a short context': ({}, {'context': 4096}, 'holds 512 tokens'),
  'log-probs at another temperature': (
    {'scaled': False},
    {},
    'temperature does not change',
  ),
  'pieces that are no sums': (
    {'incremental_streaming_output': True},
    {},
    'start it without',
  ),
  'a name for a version': ({'version': 'default'}, {}, '--weight-version 0'),
}


@pytest.mark.parametrize('name', GREETINGS)
def test_a_server_that_does_not_fit_is_refused(name, tmp_path):
  made, keywords, what = GREETINGS[name]
  (tmp_path / 'config.json').write_text('{"vocab_size": 64}')
  model = pretend.Pretend(**made)
  about = model._model_info
  model._model_info = lambda body: about(body) | {'model_path': str(tmp_path)}
  told = {'vocab': 64, 'context': 512, 'seed': 0, **keywords}
  with (
    faulty.Faulty(model.respond) as server,
    pytest.raises(sglang_worker.ServerError, match=what),
  ):
    sglang.connect([server.url], **told)


def test_servers_with_weights_of_different_steps_are_refused():
  models = [pretend.Pretend(version=version) for version in '01']
  with (
    faulty.Faulty(models[0].respond) as left,
    faulty.Faulty(models[1].respond) as right,
    pytest.raises(sglang_worker.ServerError, match='differ in version'),
  ):
    sglang.connect([left.url, right.url], vocab=64, context=512, seed=0)


def test_no_server_at_all():
  with pytest.raises(ValueError, match='no servers'):
    sglang.connect([], vocab=64, context=512, seed=0)
  with pytest.raises(sglang_worker.ServerError, match='ConnectError'):
    sglang.connect(['http://127.0.0.1:9'], vocab=64, context=512, seed=0)


def test_seeds_that_are_ignored_are_warned_of():
  with (
    pytest.warns(UserWarning, match='ignores seeds'),
    served.serving(enable_deterministic_inference=False),
  ):
    pass
  with warnings.catch_warnings():
    warnings.simplefilter('error')
    with served.serving():
      pass


def test_a_version_by_name_is_the_number_it_was_said_to_be():
  told = {'names': {'default': 4}}
  with served.serving(version='default', keywords=told) as (client, _, _):
    assert client.version == 4
    (sample,) = client.generate(served.requests(1), PLAIN)
    assert set(sample.versions.tolist()) == {4}
