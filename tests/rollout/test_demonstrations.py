"""Demonstrations as episodes: masks, no log-probs, cut at the context."""

import numpy as np
import pytest

from arl import episode
from arl.envs import arithmetic, base
from arl.models import tokenizers
from arl.rollout import chat, demonstrations, engine, scripted, strategies

LIMITS = strategies.Limits(
  max_turns=4, turn_tokens=1, context=256, response_tokens=400
)


@pytest.fixture(scope='module')
def made():
  return chat.chat(tokenizers.characters())


def demonstrate(made, env, tasks, *, samples=1, limits=LIMITS, path=(3,)):
  return demonstrations.noisy(
    scripted.ScriptedEngine(lambda request: [], 2),  # it is not asked
    env,
    made,
    tasks,
    strategies.Plan(samples, engine.Sampling(), limits, path),
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


# Beside what the policy samples.


def beside(made, samples=3):
  say = lambda request: made.action('hm')[:-1]
  speaker = scripted.ScriptedEngine(say, 102)
  asked = []

  def score(sequences, temperature):
    asked.append(temperature)
    return [-np.arange(len(ids), dtype=np.float32) for ids in sequences]

  speaker.score = score
  env = environment(two_turns)._replace(oracle=lambda state: f'to {state}')
  episodes = demonstrations.beside(
    speaker,
    env,
    made,
    [TASK, TASK._replace(id='u')],
    strategies.Plan(
      samples,
      engine.Sampling(temperature=0.7),
      LIMITS._replace(turn_tokens=9),
      (3,),
    ),
  )
  assert asked == [0.7]
  return episodes


def test_demonstrations_come_after_the_samples(made):
  episodes = beside(made)
  assert [(e.task.id, e.sample) for e in episodes] == [
    ('t', 0), ('t', 1), ('u', 0), ('u', 1),
    ('t/demonstration', 2), ('u/demonstration', 2),
  ]  # fmt: skip
  shown = [e.extras['demonstrated'].all() for e in episodes]
  assert shown == [e.extras['demonstrated'].any() for e in episodes]
  assert shown == [False] * 4 + [True] * 2
  for e in episodes:
    assert len(e.extras['demonstrated']) == len(e.tokens)
    assert np.all(np.isfinite(e.logp)) and e.logp.dtype == np.float32


def test_a_demonstration_follows_the_oracle_and_the_engine_scores_it(made):
  *_, one = beside(made)
  assert [x.action for x in one.exchanges] == ['to 0', 'to 1']
  where = np.flatnonzero(one.mask)
  np.testing.assert_array_equal(one.logp[where], -where.astype(float))
  assert not one.logp[~one.mask].any()
  assert one.status == episode.FINISHED


def test_a_demonstration_is_a_group_of_its_own(made):
  sizes = [len(g.episodes) for g in episode.groups(beside(made))]
  assert sizes == [2, 2, 1, 1]


def test_what_the_environment_scored_stays(made):
  scored = lambda state, text: two_turns(state, text)._replace(process=0.25)
  speaker = scripted.ScriptedEngine(lambda r: made.action('hm')[:-1], 102)
  episodes = demonstrations.beside(
    speaker,
    environment(scored, None),
    made,
    [TASK],
    strategies.Plan(2, engine.Sampling(), LIMITS._replace(turn_tokens=9), (3,)),
  )
  for e in episodes:
    assert e.extras.keys() == {
      'demonstrated',
      'process_rewards',
      'rollout_version',
    }
    assert np.sum(e.extras['process_rewards']) == 0.5
  assert demonstrations.beside.gives == {'demonstrated'}
  for strategy in (demonstrations.beside, demonstrations.noisy):
    assert strategy.lacks == {'rollout_entropy', 'routed_experts'}


def test_one_sample_leaves_none_to_the_policy(made):
  with pytest.raises(ValueError) as caught:
    beside(made, samples=1)
  assert str(caught.value) == (
    'demonstrations.beside: 1 samples a task leave none to the policy; set'
    ' prompts.samples to 2 or more.'
  )
