"""Greedy baselines: what they earn, and what becomes of those that fail."""

import math

import numpy as np
import tiny as tiny_lib

from arl import episode
from arl.rollout import chat, engine, greedy, scripted, strategies

LIMITS = strategies.Limits(
  max_turns=2, turn_tokens=6, context=24, response_tokens=400
)


class TwoFaced(scripted.ScriptedEngine):
  """It says one thing where it is greedy, and another where it samples."""

  def __init__(self, greedy, sampled):
    super().__init__(sampled, vocab=8)
    self.greedy, self.sampled, self.asked = greedy, sampled, []

  def generate(self, requests, sampling):
    self.script = self.greedy if sampling.temperature == 0 else self.sampled
    self.asked.append(sampling)
    return super().generate(requests, sampling)


def says(text):
  return tiny_lib.tokenizer().encode(text)


def roll_out(speaker, *, broken='', count=2, samples=3):
  env = tiny_lib.letters(broken=broken)
  return greedy.with_baseline(
    speaker,
    env,
    chat.chat(tiny_lib.tokenizer(), observation_role='user'),
    [env.task('train', i) for i in range(count)],
    strategies.Plan(
      samples, engine.Sampling(temperature=0.7, entropy=True), LIMITS, (3, 4)
    ),
  )


def by_task(*words):
  """A script that says a word in each turn of each task."""
  return lambda request: says(words[request.path[2]])


def test_the_baseline_of_a_task_is_what_its_greedy_episode_earns():
  made = roll_out(TwoFaced(by_task('a', 'b'), by_task('b', 'a')))
  assert [(e.task.id, e.sample) for e in made] == [
    (f'letters/train/{task}', sample)
    for task in range(2)
    for sample in range(3)
  ]
  for e in made[:3]:
    assert episode.total_reward(e) == 0
    np.testing.assert_array_equal(e.extras['baseline'], [1.0] * len(e.tokens))
  for e in made[3:]:
    assert episode.total_reward(e) == 1
    np.testing.assert_array_equal(e.extras['baseline'], [0.0] * len(e.tokens))
  assert {e.extras['baseline'].dtype for e in made} == {np.dtype('f4')}


def test_samples_are_those_of_the_plain_strategy():
  script = lambda request: says('abcd'[sum(request.path) % 4])
  sampling = engine.Sampling(temperature=0.7, entropy=True)
  env = tiny_lib.letters()
  speaker = TwoFaced(script, script)
  plain = strategies.multi_turn(
    speaker,
    env,
    chat.chat(tiny_lib.tokenizer(), observation_role='user'),
    [env.task('train', i) for i in range(2)],
    strategies.Plan(3, sampling, LIMITS, (3, 4)),
  )
  speaker = TwoFaced(script, script)
  made = roll_out(speaker)
  for one, other in zip(made, plain, strict=True):
    np.testing.assert_array_equal(one.tokens, other.tokens)
    assert (one.sample, one.status) == (other.sample, other.status)
  # The greedy turns come first; no one reads their entropies.
  asked = [(s.temperature, s.entropy) for s in speaker.asked]
  assert asked == [(0.0, False)] * 2 + [(0.7, True)] * 2


def test_a_task_whose_greedy_episode_fails_has_no_grade():
  made = roll_out(TwoFaced(by_task('.', 'b'), by_task('a', 'a')), broken='.')
  assert [e.status for e in made[:3]] == [episode.ENVIRONMENT_ERROR] * 3
  assert made[0].error.startswith(
    'the greedy episode of its task failed: env.step raised OSError'
  )
  assert [e.status for e in made[3:]] == [episode.FINISHED] * 3


def test_a_sample_that_fails_fails_alone():
  script = lambda request: says('.' if request.path[-2] == 1 else 'a')
  made = roll_out(TwoFaced(by_task('a', 'a'), script), broken='.')
  statuses = [e.status for e in made]
  assert statuses == [
    episode.FINISHED, episode.ENVIRONMENT_ERROR, episode.FINISHED,
  ] * 2  # fmt: skip


def test_it_says_what_it_gives():
  assert greedy.with_baseline.gives == {'baseline'}


def test_logps_stay_those_of_the_samples():
  for e in roll_out(TwoFaced(by_task('a', 'b'), by_task('b', 'a'))):
    np.testing.assert_allclose(e.logp[e.mask], -math.log(8), rtol=1e-6)
