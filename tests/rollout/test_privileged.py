"""A policy as its own teacher: the same ids, scored behind a hint."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny as tiny_lib

from arl import episode
from arl.envs import hinted, tools
from arl.models import sizes, tokenizers, transformer
from arl.rollout import chat as chat_lib
from arl.rollout import engine, local, privileged, scripted, strategies

CONTEXT = 160
LIMITS = strategies.Limits(
  max_turns=2, turn_tokens=6, context=CONTEXT, response_tokens=400
)
CHAT = chat_lib.chat(tokenizers.characters())


@pytest.fixture(scope='module')
def model():
  size = sizes.tiny(102)._replace(context=CONTEXT)
  made, rng = transformer.make(size), np.random.default_rng(0)
  shapes = jax.eval_shape(made.init, jax.random.key(0))
  draw = lambda x: jnp.asarray(0.3 * rng.normal(size=x.shape), x.dtype)
  return made, jax.tree.map(draw, shapes)


@pytest.fixture(scope='module')
def sampler(model):
  return local.LocalEngine(*model, slots=8, context=CONTEXT, seed=3)


def plan(samples=2, temperature=0.7, **limits):
  sampling = engine.Sampling(temperature=temperature)
  return strategies.Plan(samples, sampling, LIMITS._replace(**limits), (0, 1))


def some_tasks(count=2):
  env = tools.make()
  return env, [env.task('train', i) for i in range(count)]


def by_hand(model, ids, temperature):
  """Log-probs of a row, by one forward pass."""
  made, params = model
  tokens = jnp.asarray([ids])
  hidden = made.apply(
    params, tokens, jnp.arange(len(ids))[None], jnp.ones_like(tokens)
  )
  logs = jax.nn.log_softmax(made.logits(params, hidden[0]) / temperature)
  picked = np.take_along_axis(np.asarray(logs)[:-1], tokens[0, 1:, None], 1)
  return np.concatenate([[0], picked[:, 0]])


@pytest.mark.parametrize(
  'strategy, hint',
  [
    (privileged.told_answer, hinted.answer),
    (privileged.told_steps, hinted.steps),
  ],
)
def test_scores_are_those_of_the_same_ids_behind_a_hint(
  model, sampler, strategy, hint
):
  env, tasks = some_tasks()
  made = strategy(sampler, env, CHAT, tasks, plan())
  assert [e.task for e in made] == [task for task in tasks for _ in range(2)]
  for one in made:
    begun = len(CHAT.opening(one.task))
    told = CHAT.opening(hinted.told(one.task, hint(env, one.task)))
    assert len(told) > begun
    want = by_hand(model, [*told, *one.tokens[begun:].tolist()], 0.7)
    want = want[len(told) - begun :]
    column = one.extras['teacher_logp']
    assert column.dtype == np.float32 and np.any(one.mask)
    np.testing.assert_allclose(column[one.mask], want[one.mask], atol=1e-4)
    assert not np.any(column[~one.mask]) and one.extras['hinted'].all()
    # The hint makes a difference, or nothing was shown.
    assert np.max(np.abs(column - one.logp)) > 1e-3


def test_samples_are_those_without_a_teacher(sampler):
  env, tasks = some_tasks()
  made = privileged.told_answer(sampler, env, CHAT, tasks, plan())
  plain = strategies.multi_turn(sampler, env, CHAT, tasks, plan())
  for one, other in zip(made, plain, strict=True):
    np.testing.assert_array_equal(one.tokens, other.tokens)
    np.testing.assert_array_equal(one.logp, other.logp)


def test_room_is_kept_for_the_longest_hint():
  env, tasks = some_tasks(4)
  wordy = scripted.ScriptedEngine(
    lambda request: [20] * request.max_tokens, vocab=102
  )
  tight = plan(turn_tokens=100, context=100)
  made = privileged.told_steps(wordy, env, CHAT, tasks, tight)
  for one in made:
    hint = hinted.told(one.task, hinted.steps(env, one.task))
    extra = len(CHAT.opening(hint)) - len(CHAT.opening(one.task))
    assert len(one.tokens) + extra <= 100


# Told what the best rollout did.


def siblings(context=CONTEXT):
  """Three rollouts of a task, of which the second earns something."""
  env, tasks = some_tasks(1)
  right = tokenizers.characters().encode(f'={tasks[0].data["answer"]}')
  wrong = tokenizers.characters().encode('=1')
  script = lambda request: right if request.path[-2] == 1 else wrong
  speaker = scripted.ScriptedEngine(script, vocab=102)
  return privileged.told_success(
    speaker, env, CHAT, tasks, plan(samples=3, context=context)
  )


def test_what_earned_less_is_told_what_the_best_did():
  first, best, last = siblings()
  assert episode.total_reward(best) == 1
  told = [one.extras['hinted'] for one in (first, best, last)]
  assert (
    [x.all() for x in told] == [x.any() for x in told] == [True, False, True]
  )
  np.testing.assert_array_equal(best.extras['teacher_logp'], best.logp)
  for one in (first, last):
    np.testing.assert_allclose(
      one.extras['teacher_logp'][one.mask], -np.log(102), rtol=1e-6
    )


def test_no_room_is_no_lesson(monkeypatch):
  asked = []
  score = scripted.ScriptedEngine.score

  def noted(self, sequences, temperature):
    asked.append([len(ids) for ids in sequences])
    return score(self, sequences, temperature)

  monkeypatch.setattr(scripted.ScriptedEngine, 'score', noted)
  first, *_ = siblings()
  siblings(context=len(first.tokens) + 3)
  assert asked[0] and asked[1] == []


def test_a_failed_sibling_is_no_example():
  env, tasks = some_tasks(1)
  speaker = scripted.ScriptedEngine(lambda request: [7, 1], vocab=102)
  broken = env._replace(reset=lambda task: 1 / 0)
  made = privileged.told_success(speaker, broken, CHAT, tasks, plan())
  assert {e.status for e in made} == {episode.ENVIRONMENT_ERROR}
  assert not any(np.any(e.extras['teacher_logp']) for e in made)


# Told the skill that it then wrote.


def skilled(says, samples=2, env=None, **limits):
  """Episodes of one answer each; of task 0's first sample it is right.

  Skills are `says(task, sample)`; the engine scores a token by the row's size.
  """
  tools_, tasks = some_tasks(2)

  def script(request):
    *_, place, sample, turn = request.path
    if turn == LIMITS.max_turns:
      return tokenizers.characters().encode(says(place, sample))
    right = (place, sample) == (0, 0)
    return tokenizers.characters().encode(
      f'={tasks[0].data["answer"]}' if right else '=1'
    )

  speaker = scripted.ScriptedEngine(script, vocab=102)
  speaker.score = lambda rows, temperature: [
    np.full(len(ids), -len(ids), np.float32) for ids in rows
  ]
  limits = {'turn_tokens': 12, **limits}
  made = privileged.told_skill(
    speaker, env or tools_, CHAT, tasks, plan(samples, **limits)
  )
  asked = [r for r in speaker.calls if r.path[-1] == LIMITS.max_turns]
  return made, [''.join(CHAT.pieces(r.tokens)) for r in asked]


def test_the_hint_is_the_skill_of_the_episode_itself():
  made, asked = skilled(lambda place, sample: f'do: {place}{sample}')
  for i, (one, prompt) in enumerate(zip(made, asked, strict=True)):
    task, sample = divmod(i, 2)
    became = 'right' if i == 0 else 'wrong'
    action = one.exchanges[0].action
    assert prompt == (
      f'<|user|>skill\n? {one.task.prompt}\n- {action}\n{became}<|assistant|>'
    )
    told = CHAT.opening(hinted.told(one.task, f'do: {task}{sample}'))
    behind = len(told) + len(one.tokens) - len(CHAT.opening(one.task))
    assert set(one.extras['teacher_logp'][one.mask]) == {-behind}
    assert one.extras['hinted'].all()


def test_without_a_skill_there_is_no_lesson():
  said = iter(['do: it', 'hm', 'do: <|tool|>', 'avoid: it too much!!'])
  made, _ = skilled(lambda place, sample: next(said))
  assert [e.extras['hinted'].all() for e in made] == [True, False, False, False]
  for one in made[1:]:
    assert not one.extras['hinted'].any()
    np.testing.assert_array_equal(one.extras['teacher_logp'], one.logp)


def test_what_failed_is_asked_nothing():
  env, _ = some_tasks()
  broken = env._replace(reset=lambda task: 1 / 0)
  made, asked = skilled(lambda *_: 'do: it', env=broken)
  assert not asked and not any(e.extras['hinted'].any() for e in made)


def test_it_says_what_it_gives_and_asks_for():
  for strategy in (
    privileged.told_answer, privileged.told_steps, privileged.told_success,
    privileged.told_skill,
  ):  # fmt: skip
    assert strategy.gives == {'teacher_logp', 'hinted'}
    assert strategy.takes == {'teacher'}
  assert privileged.told_answer.asks == {'answer'}
  mute = tiny_lib.letters()
  with pytest.raises(ValueError, match='no reference answers'):
    privileged.told_answer(None, mute, CHAT, [mute.task('train', 0)], plan())
