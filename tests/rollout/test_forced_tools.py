"""Forced calls: spelled as the syntax has it, exact, and unbiased."""

import jax
import numpy as np
import pytest
import tiny as tiny_lib

from arl import episode
from arl.envs import base, call_syntax, calls
from arl.models import transformer
from arl.rollout import (
  chat,
  costs,
  engine,
  forced_tools,
  local,
  scripted,
  strategies,
)

LIMITS = strategies.Limits(
  max_turns=2, turn_tokens=6, context=64, response_tokens=400
)
CHAT = chat.chat(tiny_lib.tokenizer(), observation_role='user')


def tool(name):
  return calls.Tool(name, '', {'type': 'object', 'properties': {}}, lambda: '')


def armed(*names):
  """Letters, whose tools are called by letters; a syntax of them alone."""
  return tiny_lib.letters()._replace(tools=[tool(name) for name in names])


@pytest.fixture(autouse=True)
def spelled(monkeypatch):
  """A call is the name of the tool and, with arguments, a question mark."""

  def write(made):
    return ''.join(c.name + '?' * bool(c.arguments) for c in made)

  letters = call_syntax.Syntax(lambda text, tools: None, write)
  monkeypatch.setitem(call_syntax.SYNTAXES, 'letters', letters)


@pytest.fixture(scope='module')
def model():
  shape = tiny_lib.size()._replace(context=64)
  made = transformer.make(shape)
  return local.LocalEngine(
    made, made.init(jax.random.key(1)), slots=16, context=64, seed=3
  )


def roll_out(strategy, speaker, env, eps, *, samples=4, count=2):
  return strategy(
    speaker,
    env,
    CHAT,
    [env.task(base.TRAIN, i) for i in range(count)],
    strategies.Plan(samples, engine.Sampling(), LIMITS, (5,)),
    tool_eps=eps,
  )


@pytest.mark.parametrize('syntax', ['hermes', 'llama', 'coder', 'react'])
def test_what_a_call_begins_with_names_the_tool(syntax):
  told = call_syntax.SYNTAXES[syntax]
  text = forced_tools.beginning(syntax, 'find')
  for given in ({}, {'a': 'a'}, {'a': 'a', 'b': 'b'}):
    written = told.write([calls.Call('find', given)])
    assert written.startswith(text)
    others = told.write([calls.Call('fin', given)])
    assert not others.startswith(text)
  assert forced_tools.beginning('positional', 'find') == 'find('


def test_a_forced_beginning_is_off_the_mask(model):
  env = armed('ab', 'cd')
  made = roll_out(forced_tools.off_mask('letters'), model, env, 0.5)
  told = costs.of(forced_tools.masked, made)
  assert 0.2 < told['rollout/forced_frac'] < 0.8
  tried = set()
  for one in made:
    forced = one.extras['forced']
    assert not np.any(forced & one.mask)
    scores = model.score([one.tokens.tolist()], 1.0)[0]
    np.testing.assert_allclose(one.logp[one.mask], scores[one.mask], atol=1e-5)
    for turn in np.unique(one.turn[forced]):
      action = one.exchanges[turn].action
      assert action[:2] in ('ab', 'cd')
      tried.add(action[:2])
      # The forced tokens are of the turn that they begin.
      first = np.flatnonzero(one.turn == turn)
      assert np.all(np.diff(first) == 1)
  assert tried == {'ab', 'cd'}
  again = roll_out(forced_tools.off_mask('letters'), model, env, 0.5)
  for one, other in zip(made, again, strict=True):
    np.testing.assert_array_equal(one.tokens, other.tokens)


@pytest.mark.parametrize(
  'strategy', [forced_tools.off_mask, forced_tools.in_mixture]
)
def test_with_probability_0_nothing_changes(model, strategy):
  env = armed('ab')
  ours = roll_out(strategy('letters'), model, env, 0.0)
  plain = strategies.multi_turn(
    model,
    env,
    CHAT,
    [env.task(base.TRAIN, i) for i in range(2)],
    strategies.Plan(4, engine.Sampling(), LIMITS, (5,)),
  )
  for one, other in zip(ours, plain, strict=True):
    np.testing.assert_array_equal(one.tokens, other.tokens)
    np.testing.assert_allclose(one.logp, other.logp, atol=1e-6)


def test_a_mixture_stores_its_own_probabilities(model):
  # 'ab' and 'ac' share a token; 'c' is a call too.
  names, eps = ('ab', 'ac', 'c'), 0.4
  env = armed(*names)
  made = roll_out(forced_tools.in_mixture('letters'), model, env, eps)
  begun = [CHAT.tokenizer.encode(name) for name in names]
  for one in made:
    pi = model.score([one.tokens.tolist()], 1.0)[0]
    for turn in range(len(one.exchanges)):
      at = np.flatnonzero(one.mask & (one.turn == turn))
      ids = one.tokens[at].tolist()
      # By hand: every way to come by the whole action.
      total = (1 - eps) * np.exp(pi[at].sum())
      for begin in begun:
        if ids[: len(begin)] == begin:
          total += eps / 3 * np.exp(pi[at][len(begin) :].sum())
      assert one.logp[at].sum() == pytest.approx(np.log(total), abs=1e-4)
  assert 'rollout_entropy' not in made[0].extras


def test_mixtures_add_up_to_1():
  """Over all actions of two tokens of a made-up policy."""
  rng = np.random.default_rng(0)
  first = rng.dirichlet(np.ones(3))
  second = rng.dirichlet(np.ones(3), size=3)
  begun, total = [[0, 1], [2]], 0.0
  for i in range(3):
    for j in range(3):
      logp = np.log([first[i], second[i, j]])
      made = forced_tools.mixture_logp([i, j], logp, begun, 0.3)
      total += np.exp(made.sum())
      want = 0.7 * first[i] * second[i, j]
      want += 0.15 * (i == 0 and j == 1) + 0.15 * (i == 2) * second[i, j]
      assert np.exp(made.sum()) == pytest.approx(want)
  assert total == pytest.approx(1)


class Bandit(scripted.ScriptedEngine):
  """Two arms, the letters a and b, of which it nearly always says a."""

  chance = np.array([0.95, 0.05])

  def __init__(self):
    super().__init__(lambda request: [], vocab=8)

  def generate(self, requests, sampling):
    arms = CHAT.tokenizer.encode('ab')
    made = []
    for request in requests:
      begun = [i for i in request.tokens if i in arms]
      rng = np.random.default_rng([*request.path, 9])
      ids, logp = [], []
      if not begun:
        arm = int(rng.random() < self.chance[1])
        ids, logp = [arms[arm]], [np.log(self.chance[arm])]
      ids, logp = [*ids, sampling.stop[0]], [*logp, 0.0]
      made.append(
        engine.Sample(
          np.array(ids, np.int32),
          np.array(logp, np.float32),
          engine.STOP,
          np.zeros(len(ids), np.int32),
        )
      )
    return made

  def score(self, sequences, temperature):
    arms = CHAT.tokenizer.encode('ab')
    made = []
    for ids in sequences:
      logp = np.zeros(len(ids), np.float32)
      logp[-1] = np.log(self.chance[arms.index(ids[-1])])
      made.append(logp)
    return made


def bandit():
  """It earns 1 for b, in one turn; the prompt has neither letter."""
  return armed('a', 'b')._replace(
    task=lambda split, index: episode.Task(str(index), 'd', {}),
    reset=lambda task: 0,
    step=lambda state, text: (1, episode.Turn('', float('b' in text), True)),
  )


def estimates(strategy, eps, weighed):
  """The policy's value by importance weights, and its standard error."""
  made = roll_out(strategy, Bandit(), bandit(), eps, samples=50, count=80)
  values = []
  for one in made:
    arm = 'ab'.index(one.exchanges[0].action)
    ratio = Bandit.chance[arm] / np.exp(one.logp[one.mask].sum())
    values.append((ratio if weighed else 1) * episode.total_reward(one))
  return np.mean(values), np.std(values) / np.sqrt(len(values))


def test_the_mixture_is_unbiased_on_a_bandit():
  mixed = forced_tools.in_mixture('letters')
  got, error = estimates(mixed, 0.3, weighed=True)
  assert error < 0.005 and abs(got - 0.05) < 3 * error
  # Without the weights it is the value of the behaviour, which is another.
  got, error = estimates(mixed, 0.3, weighed=False)
  assert abs(got - (0.7 * 0.05 + 0.15)) < 3 * error


def test_rare_tools_are_tried_more_often():
  got, error = estimates(forced_tools.off_mask('letters'), 0.3, weighed=False)
  assert abs(got - 0.185) < 3 * error
  got, error = estimates(forced_tools.off_mask('letters'), 0.0, weighed=False)
  assert abs(got - 0.05) < 3 * error


def test_no_tools_no_strategy(model):
  with pytest.raises(ValueError, match='tells of no tools'):
    roll_out(forced_tools.masked, model, tiny_lib.letters(), 0.1)
  with pytest.raises(ValueError, match='tool_eps is 1'):
    roll_out(forced_tools.off_mask('letters'), model, armed('a'), 1)
