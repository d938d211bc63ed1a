"""A policy that judges what it did itself, by a scripted engine."""

import numpy as np
import pytest

from arl import episode
from arl.envs import tools
from arl.models import tokenizers
from arl.prompts import pairs
from arl.rewards import judgements, verdict
from arl.rollout import chat as chat_lib
from arl.rollout import engine, scripted, self_rewarding, strategies

CHAT = chat_lib.chat(tokenizers.characters())
ENV = tools.make()
LIMITS = strategies.Limits(
  max_turns=2, turn_tokens=12, context=96, response_tokens=24
)


def text_of(request):
  return ''.join(CHAT.pieces(request.tokens))


def play(says, *, samples=2, tasks=2, strategy=self_rewarding.short, env=ENV,
         **limits):  # fmt: skip
  """Episodes whose judgements are `says(task, sample, index)`.

  Every action is the answer =1SAMPLE.
  """

  def script(request):
    *_, place, sample, turn = request.path
    judging = 'judge\n' in text_of(request)
    text = says(place, sample, turn - 2) if judging else f'=1{sample}'
    return tokenizers.characters().encode(text)

  speaker = scripted.ScriptedEngine(script, 102)
  limits = LIMITS._replace(**limits)
  plan = strategies.Plan(samples, engine.Sampling(), limits, (7,))
  asked = [env.task('train', i) for i in range(tasks)]
  return strategy(speaker, env, CHAT, asked, plan), speaker


def test_episodes_earn_the_mean_of_their_judgements():
  made, speaker = play(lambda task, sample, i: str(task + 2 * sample + (i > 1)))
  assert [(e.task.id, e.sample) for e in made] == [
    (ENV.task('train', i).id, s) for i in range(2) for s in range(2)
  ]
  for e, mean in zip(made, (1 / 3, 7 / 3, 4 / 3, 10 / 3)):
    assert episode.total_reward(e) == pytest.approx(mean / 5)
    assert np.flatnonzero(e.rewards).tolist() == [np.flatnonzero(e.mask)[-1]]
    assert e.status == episode.FINISHED
  paths = [request.path for request in speaker.calls]
  assert len(set(paths)) == len(paths) == 4 + 12


def test_the_judge_sees_the_task_and_what_was_done():
  _, speaker = play(lambda *_: '0')
  asked = [text_of(r) for r in speaker.calls if 'judge\n' in text_of(r)]
  for index, text in enumerate(asked):
    prompt = ENV.task('train', index // 6).prompt
    assert text == (
      f'<|user|>judge\n? {prompt}\n- =1{index // 3 % 2}<|assistant|>'
    )


def test_the_rest_is_as_without_judgements():
  made, speaker = play(lambda *_: '5')
  plan = strategies.Plan(2, engine.Sampling(), LIMITS, (7,))
  tasks = [ENV.task('train', i) for i in range(2)]
  plain = strategies.multi_turn(speaker, ENV, CHAT, tasks, plan)
  for one, other in zip(made, plain, strict=True):
    np.testing.assert_array_equal(one.extras[episode.PAID], other.rewards)
    assert one.rewards.dtype == np.float32
    kept = one._replace(rewards=other.rewards, extras=other.extras)
    for name, x, y in zip(other._fields, kept, other):
      if name in ('tokens', 'mask', 'logp', 'turn'):
        np.testing.assert_array_equal(x, y)
      else:
        assert x is y or x == y


def test_those_count_that_can_be_read():
  said = {0: ['5', 'hm', '2'], 1: ['', '6', 'hm']}
  made, _ = play(lambda task, sample, i: said[sample][i], tasks=1)
  assert episode.total_reward(made[0]) == pytest.approx(3.5 / 5)
  assert made[1].status == episode.REWARD_ERROR
  assert 'no digit from 0 to 5' in made[1].error
  assert episode.groups(made)[0].episodes == made
  assert pairs.best_against_worst(episode.groups(made)) == []


def test_a_judgement_that_is_cut_is_none():
  form = judgements.short()._replace(read=lambda text: verdict.scored(1.0))
  made, _ = play(lambda *_: '5' * 12, strategy=self_rewarding.judged(form))
  assert {e.status for e in made} == {episode.REWARD_ERROR}
  assert 'came to no end' in made[0].error


def test_what_failed_is_not_judged():
  broken = ENV._replace(reset=lambda task: 1 / 0)
  made, speaker = play(lambda *_: '5', env=broken)
  assert {e.status for e in made} == {episode.ENVIRONMENT_ERROR}
  assert 'division' in made[0].error and not speaker.calls


def test_no_room_to_be_judged_is_no_grade():
  begun = len(CHAT.opening(ENV.task('train', 0)))
  made, speaker = play(lambda *_: '5', tasks=1, context=begun + 4)
  assert {e.status for e in made} == {episode.REWARD_ERROR}
  assert 'leaves no room in a context' in made[0].error
  assert len(speaker.calls) == 2


def test_what_cannot_be_spelled_is_no_grade():
  form = judgements.short()._replace(ask=lambda task, done: ('', 'é'))
  made, _ = play(lambda *_: '5', strategy=self_rewarding.judged(form))
  assert {e.status for e in made} == {episode.REWARD_ERROR}
  assert 'it cannot be shown: ' in made[0].error


def test_the_pairs_of_the_spec():
  """Means 2.67, 4.33, 1 and 2.33 of three judgements of four answers."""
  said = ['323', '445', '111', '322']
  made, _ = play(lambda task, sample, i: said[sample][i], samples=4, tasks=1)
  means = [episode.total_reward(e) * judgements.POINTS for e in made]
  np.testing.assert_allclose(
    means, [2.666667, 4.333333, 1, 2.333333], rtol=1e-6
  )
  (pair,) = pairs.best_against_worst(episode.groups(made))
  assert [e.sample for e in pair.episodes] == [1, 2]
  tied, _ = play(lambda *_: '4', samples=4)
  assert pairs.best_against_worst(episode.groups(tied)) == []


def test_no_judgement_is_refused():
  with pytest.raises(ValueError, match='times is 0; give 1 or more'):
    self_rewarding.judged(judgements.short(), times=0)
