"""Every strategy that steers makes of a server what it makes of an engine."""

import numpy as np
import pytest
import test_steering as steering
import tiny

from arl.envs import base, call_syntax, calls
from arl.models import hf
from arl.rollout import (
  beams,
  deer,
  diverse,
  early_stop,
  engine,
  forced_tools,
  local,
  selective,
  sglang,
  strategies,
  t2po,
)
from tests.rollout import serving

LIMITS = steering.LIMITS._replace(context=32)
SETTINGS = {'context': 32, 'seed': 7}
STRATEGIES = {
  't2po': (t2po.controlled(t2po.Turns(eta=2.0), steering.STOP), {}),
  'selective': (selective.cut(1, least=0.6), {}),
  'early_stop': (early_stop.two, {'entropy_floor': 9.0}),
  'masked': (forced_tools.off_mask('letters'), {'tool_eps': 0.5}),
  'mixed': (forced_tools.in_mixture('letters'), {'tool_eps': 0.5}),
  'plans': (diverse.deduped(least=0.7), {}),
  'beams': (beams.search(1, 2), {}),
  'deer': (
    deer.early(
      deer.Exit(turns=('b',), asks='c', tokens=2, least=0.1, closed='?')
    ),
    {},
  ),
}


@pytest.fixture(autouse=True)
def spelled(monkeypatch):
  """A call is the name of the tool and, with arguments, a question mark."""
  write = lambda made: ''.join(c.name + '?' * bool(c.arguments) for c in made)
  letters = call_syntax.Syntax(lambda text, tools: None, write)
  monkeypatch.setitem(call_syntax.SYNTAXES, 'letters', letters)


@pytest.fixture(scope='module')
def engines(tmp_path_factory):
  """The embedded engine, and a client of a server of the same weights."""
  folder = tiny.write_model(tmp_path_factory.mktemp('steered') / 'model')
  loaded, tokenizer = hf.load(folder), tiny.tokenizer()
  read = lambda ids: tokenizer.decode(ids, skip_special_tokens=False)
  embedded = local.LocalEngine(
    loaded.model, loaded.params, slots=8, read=read, **SETTINGS
  )
  with serving.running(folder) as http:
    client = sglang.connect(
      [str(http.base_url)], vocab=loaded.model.vocab, **SETTINGS
    )
    yield embedded, client
    client.close()


def play(strategy, told, made):
  tool = calls.Tool('ab', '', {'type': 'object', 'properties': {}}, str)
  env = steering.counted(2)._replace(tools=(tool,))
  tasks = [env.task(base.TRAIN, i) for i in range(4)]
  plan = strategies.Plan(3, engine.Sampling(), LIMITS, (5,))
  return strategy(made, env, steering.CHAT, tasks, plan, **told)


@pytest.mark.parametrize('name', STRATEGIES)
def test_a_server_is_steered_alike(engines, name):
  strategy, told = STRATEGIES[name]
  ours, theirs = (play(strategy, told, made) for made in engines)
  assert len(ours) == len(theirs)
  for one, other in zip(ours, theirs):
    assert one.status == other.status
    np.testing.assert_array_equal(one.tokens, other.tokens)
    np.testing.assert_array_equal(one.mask, other.mask)
    np.testing.assert_allclose(one.logp, other.logp, atol=1e-5)
    assert one.extras.keys() == other.extras.keys()
    for column in one.extras:
      np.testing.assert_allclose(
        one.extras[column], other.extras[column], atol=1e-5
      )


def test_what_is_sampled_once_is_steered(engines):
  """The strategies above do something, but for a cut of what is alike."""
  embedded, _ = engines
  plain = play(strategies.multi_turn, {}, embedded)
  for name in STRATEGIES.keys() - {'selective'}:
    strategy, told = STRATEGIES[name]
    made = play(strategy, told, embedded)
    assert len(made) != len(plain) or any(
      not np.array_equal(one.tokens, other.tokens)
      for one, other in zip(made, plain)
    ), name
