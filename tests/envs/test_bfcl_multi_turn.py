"""BFCL's conversations: gold trajectories, the package's verdicts, restores."""

import random

import hypothesis
import hypothesis.strategies as st
import interleaved
import numpy as np
import pytest

from arl.envs import base, bfcl_apis, bfcl_multi_turn, call_syntax_python

pytest.importorskip(
  'bfcl_eval', reason='the adapter is tested against the real package'
)
pytest.importorskip('mpmath', reason='one of the APIs of bfcl_eval needs it')
ENV = bfcl_multi_turn.make()


def task(index=0):
  return ENV.task(base.HELD_OUT, index)


@pytest.mark.parametrize('category', bfcl_multi_turn.CATEGORIES)
def test_all_gold_trajectories_earn_one(category):
  env = bfcl_multi_turn.make(category=category)
  for index in range(200):
    exchanges = base.play(env, env.task(base.HELD_OUT, index), env.oracle, 60)
    rewards = [e.turn.reward for e in exchanges]
    assert rewards == [0] * (len(rewards) - 1) + [1], index
    assert exchanges[-1].turn.done


def test_actions_at_random_earn_nothing():
  rng = np.random.default_rng(0)
  act = lambda state: bfcl_multi_turn.at_random(state, rng)
  for index in range(50):
    assert base.play(ENV, task(index), act, 20)[-1].turn.reward == 0.0


def test_verdicts_are_those_of_the_package():
  """Gold trajectories with calls left out, or more of them, or reordered."""
  from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_checker

  rng, verdicts = random.Random(0), []
  for index in range(60):
    problem = task(index)
    said = [[*calls] for calls in problem.data['wanted']]
    place = rng.choice([turn for turn in said if turn])
    match rng.randrange(4):
      case 0:
        place.remove(rng.choice(place))
      case 1:
        place.insert(rng.randrange(len(place) + 1), rng.choice(place))
      case 2:
        rng.shuffle(place)
    actions = [
      action
      for calls in said
      for action in [*calls, bfcl_multi_turn.DONE]
    ]  # fmt: skip
    state, earned = ENV.reset(problem), 0.0
    for action in actions:
      if not state.over:
        state, turn = ENV.step(state, action)
        earned += turn.reward
    entry = {
      'id': f'{problem.data["bfcl"]}',
      'initial_config': problem.data['config'],
      'involved_classes': problem.data['classes'],
    }
    theirs = multi_turn_checker.multi_turn_checker(
      [[[call] for call in calls] for calls in said],
      problem.data['wanted'],
      entry,
      'multi_turn_base',
      f'arl{index}',
    )
    assert earned == theirs['valid'], (problem.id, said)
    verdicts.append(earned)
  assert 0.2 < np.mean(verdicts) < 0.9


@hypothesis.settings(deadline=None, max_examples=30)
@hypothesis.given(data=st.data())
def test_any_order_of_steps_from_kept_states_gives_the_same(data):
  problem = task(data.draw(st.integers(0, 199)))
  interleaved.check(ENV, problem, ENV.noisy, data, 12)


def test_what_is_seen():
  problem = task()
  assert problem.prompt.startswith("Move 'final_report.pdf' within")
  assert '"name": "mkdir"' in problem.system
  state, turn = interleaved.walk(ENV, problem, ["[cd(folder='document')]"])
  assert turn.text == '{"current_working_directory": "document"}'
  state, turn = ENV.step(state, "[cd(folder='no'), ls()]")
  assert turn.text.startswith('{"error": "cd: \'no\': No such')
  assert turn.text.count('\n') == 1


@pytest.mark.parametrize(
  'action, seen',
  [
    ('[cd(', 'error: use [name(argument=value), ..]'),
    ("[open('/etc/passwd')]", "error: no function 'open'"),
    ('[_load_scenario({})]', "error: no function '_load_scenario'"),
    ('[__class__()]', "error: no function '__class__'"),
    ('[GorillaFileSystem.pwd()]', "error: no function 'GorillaFileSystem.pwd'"),
    ("[cd(folder=open('x'))]", 'error: arguments are literals'),
    ('[cd()]', "error: missing a required argument: 'folder'"),
    ('[cd(folder=1, x=2)]', "error: got an unexpected keyword argument 'x'"),
    ('[cd(folder=[])]', 'error: '),
  ],
)
def test_bad_calls_are_observations(action, seen):
  problem = task()
  state, turn = base.checked_step(ENV, ENV.reset(problem), action)
  assert turn.text.startswith(seen)
  assert (turn.reward, turn.done, state.turns) == (0.0, False, 1)


def test_calls_that_would_not_end_are_refused():
  apis = bfcl_apis.make(['MathAPI'], {}, False)
  for text in (
    'power(base=9, exponent=10000000000)',
    'square_root(number=2, precision=1000000000)',
    'logarithm(value=2, base=3, precision=1000000000)',
  ):
    (call,) = call_syntax_python.read(text)
    assert bfcl_apis.run(apis, call) == 'error: the number is too large'
  (call,) = call_syntax_python.read('power(base=2, exponent=10)')
  assert bfcl_apis.run(apis, call) == '{"result": 1024}'


def test_a_turn_without_the_calls_that_are_due_ends_the_episode():
  state, turn = interleaved.walk(ENV, task(), ['I will not.'])
  assert (turn.reward, turn.done) == (0.0, True)
  with pytest.raises(ValueError, match='reset first'):
    ENV.step(state, '[ls()]')


def test_a_turn_has_only_so_many_replies():
  _, turn = interleaved.walk(ENV, task(), ['[pwd()]'] * bfcl_multi_turn.STEPS)
  assert (turn.reward, turn.done) == (0.0, True)


def test_functions_that_were_missing_are_told_of_when_they_come():
  env = bfcl_multi_turn.make(category='multi_turn_miss_func')
  problem = env.task(base.HELD_OUT, 0)
  assert problem.data['missing'] == {'3': ['sort']}
  assert '"name": "sort"' not in problem.system
  state, told = env.reset(problem), []
  while not state.over:
    state, turn = env.step(state, env.oracle(state))
    told.append('"name": "sort"' in turn.text)
  assert sum(told) == 1


def test_there_is_nothing_to_train_on():
  with pytest.raises(ValueError, match='evaluation set'):
    ENV.task(base.TRAIN, 0)
  with pytest.raises(ValueError, match="no category 'memory'"):
    bfcl_multi_turn.make(category='memory')
