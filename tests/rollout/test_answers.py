"""Reference answers in place of last actions: columns and what stays."""

import math

import numpy as np
import pytest

from arl import episode
from arl.envs import base
from arl.models import tokenizers
from arl.rollout import answers, chat, engine, scripted, strategies

LIMITS = strategies.Limits(
  max_turns=3, turn_tokens=8, context=64, response_tokens=400
)
TASK = episode.Task('t', 'do it', {'answer': 'right'})


@pytest.fixture(scope='module')
def spoken():
  return chat.chat(tokenizers.characters())


def environment(scores=True, answer=lambda task: task.data['answer']):
  """Two actions, then it is over; the last one earns 0.25."""

  def step(state, text):
    last = state == 1
    score = 0.5 + state if scores else None
    return state + 1, episode.Turn('ok', 0.25 * last, last, score)

  return base.Env(
    task=lambda split, index: TASK,
    reset=lambda task: 0,
    step=step,
    oracle=lambda state: '',
    noisy=lambda state, rng: '',
    answer=answer,
    scores_steps=scores,
  )


class Scorer(scripted.ScriptedEngine):
  """It scores a token by its place, and gives entropies of 2."""

  def generate(self, requests, sampling):
    made = super().generate(requests, sampling)
    assert sampling.entropy
    return [
      s._replace(entropy=np.full(len(s.tokens), 2, np.float32)) for s in made
    ]

  def score(self, sequences, temperature):
    assert temperature == 0.7
    return [-np.arange(len(ids), dtype=np.float32) for ids in sequences]


def roll_out(
  spoken, env=None, *, says=('hm', 'no'), limits=LIMITS, samples=1, tasks=None
):
  encode = lambda text: spoken.action(text)[:-1]
  speaker = Scorer(lambda request: encode(says[request.path[-1]]), 102)
  return answers.with_reference(
    speaker,
    env or environment(),
    spoken,
    tasks or [TASK],
    strategies.Plan(
      samples, engine.Sampling(temperature=0.7, entropy=True), limits, (1,)
    ),
  )


def test_the_answer_takes_the_place_of_the_last_action(spoken):
  (made,) = roll_out(spoken)
  assert ''.join(spoken.pieces(made.tokens)) == (
    '<|user|>do it<|assistant|>hm<|end|><|tool|>ok<|assistant|>right<|end|>'
  )
  before = [False] * 7 + [True] * 3 + [False] * 4
  assert made.mask.tolist() == before + [True] * 6
  assert made.turn.tolist() == [0] * 14 + [1] * 6
  assert made.rewards.tolist() == [0] * 19 + [0.25]
  assert made.status == episode.FINISHED
  types = [x.dtype for x in made[2:7]]
  assert types == [np.int32, bool, np.float32, np.float32, np.int32]


def test_its_tokens_are_marked_and_scored_by_the_engine(spoken):
  (made,) = roll_out(spoken)
  answer = made.extras['answer']
  assert answer.dtype == bool
  assert np.flatnonzero(answer).tolist() == list(range(14, 20))
  np.testing.assert_array_equal(made.logp[answer], -np.arange(14.0, 20))
  sampled = made.mask & ~answer
  np.testing.assert_allclose(made.logp[sampled], -math.log(102), rtol=1e-6)
  assert not made.logp[~made.mask].any()


def test_scores_of_steps_stay_with_the_steps(spoken):
  (made,) = roll_out(spoken)
  scores = made.extras['process_rewards']
  assert scores[[9, 19]].tolist() == [0.5, 1.5]
  assert np.count_nonzero(scores) == 2 and len(scores) == 20
  (made,) = roll_out(spoken, environment(scores=False))
  assert made.extras.keys() == {'answer', 'rollout_version'}


def test_no_episode_has_entropies(spoken):
  cut = LIMITS._replace(max_turns=1)
  for limits in (LIMITS, cut):
    (made,) = roll_out(spoken, limits=limits)
    assert made.extras.keys() == {
      'answer',
      'process_rewards',
      'rollout_version',
    }
    version = made.extras['rollout_version']
    assert np.array_equal(version == -1, made.extras['answer'] | ~made.mask)
  assert answers.with_reference.gives == {'answer'}
  assert answers.with_reference.lacks == {'rollout_entropy'}


def test_the_text_of_the_exchange_is_the_answer_too(spoken):
  (made,) = roll_out(spoken)
  assert [x.action for x in made.exchanges] == ['hm', 'right']
  assert made.exchanges[1].turn.reward == 0.25


@pytest.mark.parametrize(
  'limits, tokens, status',
  [
    (LIMITS._replace(max_turns=1), 10, episode.MAX_TURNS),
    (LIMITS._replace(turn_tokens=2), 9, episode.MAX_TOKENS),
    # Its own action of 3 tokens fits into 19, the answer of 6 does not.
    (LIMITS._replace(context=19), 17, episode.FINISHED),
  ],
)
def test_an_episode_without_room_keeps_its_action(
  spoken, limits, tokens, status
):
  (made,) = roll_out(spoken, limits=limits)
  assert (len(made.tokens), made.status) == (tokens, status)
  assert not made.extras['answer'].any()
  assert len(made.extras['answer']) == tokens
  np.testing.assert_allclose(made.logp[made.mask], -math.log(102), rtol=1e-6)


def test_an_answer_that_just_fits(spoken):
  (made,) = roll_out(spoken, limits=LIMITS._replace(context=20))
  assert len(made.tokens) == 20 and made.extras['answer'].any()


def test_a_failure_stays_one(spoken):
  def step(state, text):
    raise OSError('lost')

  env = environment()._replace(step=step)
  (made,) = roll_out(spoken, env)
  assert made.status == episode.ENVIRONMENT_ERROR
  assert not made.extras['answer'].any()


def test_each_task_has_its_own_answer(spoken):
  other = TASK._replace(id='u', data={'answer': 'left'})
  made = roll_out(spoken, samples=2, tasks=[TASK, other])
  texts = [spoken.decode(e.tokens[e.extras['answer']].tolist()) for e in made]
  assert texts == ['right', 'right', 'left', 'left']


def test_an_environment_without_answers(spoken):
  with pytest.raises(ValueError) as caught:
    roll_out(spoken, environment(answer=None))
  assert str(caught.value) == (
    'answers.with_reference: the environment has no reference answers'
    ' (Env.answer); choose another rollout.strategy.'
  )
