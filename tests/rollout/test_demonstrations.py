"""Demonstrations as episodes: masks, no log-probs, cut at the context."""

import numpy as np
import pytest

from arl import episode
from arl.envs import arithmetic, base
from arl.models import tokenizers
from arl.rollout import chat, demonstrations, engine, scripted, strategies

LIMITS = strategies.Limits(max_turns=4, turn_tokens=1, context=256)


@pytest.fixture(scope='module')
def made():
  return chat.chat(tokenizers.characters())


def demonstrate(made, env, tasks, *, samples=1, limits=LIMITS, path=(3,)):
  return demonstrations.noisy(
    scripted.ScriptedEngine(lambda request: [], 2),  # it is not asked
    env,
    made,
    tasks,
    samples=samples,
    sampling=engine.Sampling(),
    limits=limits,
    path=path,
  )


def environment(step, noisy=lambda state, rng: 'go'):
  return base.Env(
    task=lambda split, index: episode.Task(str(index), 'do it', {}),
    reset=lambda task: 0,
    step=lambda state, text: (state + 1, step(state, text)),
    oracle=lambda state: '',
    noisy=noisy,
  )


def two_turns(state, text):
  return episode.Turn('ok', 0.5 * (state + 1), done=state == 1)


TASK = episode.Task('t', 'do it', {})


def test_columns(made):
  (result,) = demonstrate(made, environment(two_turns), [TASK])
  assert ''.join(made.pieces(result.tokens)) == (
    '<|user|>do it<|assistant|>go<|end|><|tool|>ok<|assistant|>go<|end|>'
  )
  acted = [False] * 7 + [True] * 3 + [False] * 4 + [True] * 3
  assert result.mask.tolist() == acted
  assert np.isnan(result.logp[result.mask]).all()
  assert not result.logp[~result.mask].any()
  assert result.rewards[[9, 16]].tolist() == [0.5, 1]
  assert result.rewards.sum() == 1.5
  assert result.turn.tolist() == [0] * 14 + [1] * 3
  assert result.status == episode.FINISHED
  assert [x.action for x in result.exchanges] == ['go', 'go']


@pytest.mark.parametrize(
  'context, tokens, status',
  [
    (17, 17, episode.FINISHED),
    (16, 14, episode.MAX_TOKENS),  # the second action does not fit
    (15, 14, episode.MAX_TOKENS),
    (14, 10, episode.MAX_TOKENS),  # what is seen leaves no room to act
    (10, 10, episode.MAX_TOKENS),
    (9, 7, episode.MAX_TOKENS),  # nor does the first
  ],
)
def test_cut_at_the_context(made, context, tokens, status):
  limits = LIMITS._replace(context=context)
  (result,) = demonstrate(made, environment(two_turns), [TASK], limits=limits)
  assert (len(result.tokens), result.status) == (tokens, status)


def test_cut_at_the_turns(made):
  limits = LIMITS._replace(max_turns=1)
  (result,) = demonstrate(made, environment(two_turns), [TASK], limits=limits)
  assert (len(result.tokens), result.status) == (10, episode.MAX_TURNS)


def test_a_failing_environment_ends_its_episode_alone(made):
  def step(state, text):
    if text == 'bad':
      raise KeyError('lost')
    return episode.Turn('', float('nan') if text == 'odd' else 1, True)

  words = iter(['good', 'bad', 'odd'])
  env = environment(step, lambda state, rng: next(words))
  episodes = demonstrate(made, env, [TASK], samples=3)
  assert [e.status for e in episodes] == [
    episode.FINISHED,
    episode.ENVIRONMENT_ERROR,
    episode.REWARD_ERROR,
  ]


def test_errors(made):
  limits = LIMITS._replace(context=7)
  with pytest.raises(ValueError, match='its prompt has 7 tokens, which leaves'):
    demonstrate(made, environment(two_turns), [TASK], limits=limits)
  env = environment(two_turns, lambda state, rng: 'a<|user|>')
  with pytest.raises(chat.SpecialText, match='the action contains'):
    demonstrate(made, env, [TASK])


def test_its_randomness_is_that_of_the_path(made):
  env = arithmetic.make(digits=2)
  tasks = [env.task(base.TRAIN, i) for i in range(3)]
  limits = LIMITS._replace(context=400)

  def at(path):
    shown = demonstrate(made, env, tasks, samples=8, limits=limits, path=path)
    return [tuple(e.tokens) for e in shown]

  first = at((3, 0))
  assert at((3, 0)) == first != at((3, 1))
  assert len(set(first[:8])) > 1
