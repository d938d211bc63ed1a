"""Answers to the steps of an expert's episode, and that these stay together."""

import jax
import numpy as np
import pytest

from arl import episode, kinds, methods, types
from arl.envs import keydoor
from arl.methods import compose
from arl.models import tokenizers
from arl.rollout import chat as chat_lib
from arl.rollout import engine, expert_steps, pack, scripted, strategies

ENV = keydoor.make(length=1, sides=2)
CHAT = chat_lib.chat(tokenizers.characters())
LIMITS = strategies.Limits(
  max_turns=5, turn_tokens=12, context=700, response_tokens=200
)
STEPS = 5


def expert(task):
  """His states and actions."""
  state, made = ENV.reset(task), []
  for _ in range(STEPS):
    made.append(ENV.oracle(state))
    state, _ = ENV.step(state, made[-1])
  return made


def roll_out(right, *, samples=10, tasks=2, env=ENV, strategy=expert_steps.espo,
             **limits):  # fmt: skip
  """Answers as the expert where right(step, sample), otherwise 'take it'."""
  problems = [env.task('train', i) for i in range(tasks)]

  def script(request):
    _, place, sample, step = request.path
    good = right(step, sample)
    said = expert(problems[place])[step] if good else 'take it'
    return CHAT.action(said)[:-1]

  speaker = scripted.ScriptedEngine(script, vocab=128)
  plan = strategies.Plan(
    samples, engine.Sampling(), LIMITS._replace(**limits), (3,)
  )
  return strategy(speaker, env, CHAT, problems, plan), speaker


def halves(step, sample):
  return sample % 2 == 0


def batch(made, name='agentic.espo', keep=lambda one: True):
  method = compose.method(methods.make(name, kl_coef=0.0))
  kept = [one for one in made if keep(one)]
  columns = types.columns(
    pack.pad(
      kept,
      rows=len(kept),
      width=700,
      max_turns=STEPS,
      extras=sorted(method.needs & {'stage', 'step_of_group'}),
    )
  )
  columns['old_logp'] = columns['rollout_logp']
  return kept, method, columns


def test_each_step_is_answered_from_where_the_expert_stood():
  made, speaker = roll_out(halves)
  assert len(made) == 20 and len(speaker.calls) == 20
  assert len({call.path for call in speaker.calls}) == 20
  for group in episode.groups(made):
    actions, row = expert(group.task), CHAT.opening(group.task)
    states = [ENV.reset(group.task)]
    for step in range(STEPS):
      answers = group.episodes[2 * step : 2 * step + 2]
      assert [episode.total_reward(one) for one in answers] == [1, 0]
      for one in answers:
        n = len(row)
        assert one.tokens[:n].tolist() == row
        assert not one.mask[:n].any() and one.mask[n:].all()
        assert set(one.turn[one.mask].tolist()) == {step}
        assert not np.any(one.rewards[:n]) and not np.any(one.logp[:n])
        last = step == STEPS - 1
        want = kinds.INTENT if last else kinds.EVIDENCE
        assert set(one.extras['stage'].tolist()) == {want}
      state, turn = ENV.step(states[-1], actions[step])
      states.append(state)
      row = [*row, *CHAT.action(actions[step]), *CHAT.reply(turn.text)]


def test_the_samples_are_shared_out_evenly():
  made, _ = roll_out(halves, samples=17, tasks=1)
  assert len(made) == 15
  assert [one.sample for one in made] == [*range(15)]
  with pytest.raises(ValueError, match='prompts.samples to 10 or more'):
    roll_out(halves, samples=9)


def test_an_answer_without_an_end_is_wrong():
  wrong = lambda step, sample: False
  made, _ = roll_out(wrong, turn_tokens=7, tasks=1)
  assert all(one.status == episode.MAX_TOKENS for one in made)
  assert all(episode.total_reward(one) == 0 for one in made)


def test_an_expert_without_room_is_refused():
  room = len(CHAT.opening(ENV.task('train', 0))) + 30
  for limits in ({'turn_tokens': 6}, {'max_turns': 3}, {'context': room}):
    with pytest.raises(ValueError, match='the expert does not come to an end'):
      roll_out(halves, **limits)


def test_where_the_environment_fails_the_expert_there_is_no_grade():
  def step(state, text):
    raise OSError('lost')

  made, speaker = roll_out(halves, env=ENV._replace(step=step))
  assert len(made) == 2 and not speaker.calls
  assert not any(map(episode.graded, made))


def test_steps_of_an_episode_that_are_torn_apart_are_refused():
  made, _ = roll_out(halves)
  batch(made)
  for apart in (
    lambda one: one.turn[-1] != 2,
    lambda one: one.turn[-1] < 2 or one.task.id.endswith('1'),
  ):
    with pytest.raises(ValueError, match='of the 5 steps of the expert'):
      batch(made, keep=apart)
  plain, _ = roll_out(halves, strategy=strategies.multi_turn, samples=1)
  with pytest.raises(ValueError, match="choose rollout.strategy 'expert_steps"):
    batch(plain)


def test_answers_are_compared_by_step_and_the_episode_is_added_to_all():
  def right(step, sample):
    """Evidence all wrong but for the first step; half of the intents right."""
    return step == 0 or (step == 4 and sample % 2 == 0)

  made, _ = roll_out(right)
  kept, method, columns = batch(made)
  credits = jax.jit(method.credit)(columns)
  got = np.asarray(credits['policy']['advantage'])
  sigmoid = lambda x: 1 / (1 + np.exp(-x))
  earned = (sigmoid(2 / 8) + sigmoid(1 / 2)) * 0.5
  for one, row in zip(kept, got):
    n = len(one.tokens)
    sign = 2 * episode.total_reward(one) - 1 if one.turn[-1] == 4 else 0
    want = earned + sign * 0.5 / (np.sqrt(0.5) + 1e-6)
    np.testing.assert_allclose(row[:n][one.mask], want, rtol=1e-5)
  # Centred, two episodes that earned the same are left with their steps.
  _, method, columns = batch(made, 'agentic.espo_centered')
  credits = jax.jit(method.credit)(columns)
  got = np.asarray(credits['policy']['episode_reward'])
  np.testing.assert_allclose(got, 0, atol=1e-6)


def test_episodes_weigh_the_same_whatever_their_steps():
  made, _ = roll_out(halves)
  kept, method, columns = batch(made)
  credits = jax.jit(method.credit)(columns)
  weights = np.asarray(jax.jit(method.weigh)(columns, credits)['policy'])
  for one, row in zip(kept, weights):
    n, tokens = len(one.tokens), int(one.mask.sum())
    np.testing.assert_allclose(row[:n][one.mask], 1 / (20 * tokens), rtol=1e-5)
