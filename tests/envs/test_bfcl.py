"""BFCL's single-turn questions: the oracle, and agreement with the package."""

import random
import sys
import types

import numpy as np
import pytest

from arl.envs import base, bfcl, bfcl_match, call_syntax_python

pytest.importorskip(
  'bfcl_eval', reason='the adapter is tested against the real package'
)

# Questions and those that no reply answers, by BFCL's own rules.
COUNTS = {
  'simple_python': (400, 0),
  'multiple': (200, 0),
  'parallel': (200, 0),
  'parallel_multiple': (200, 0),
  'irrelevance': (240, 0),
  'live_simple': (258, 2),
  'live_multiple': (1053, 3),
  'live_parallel': (16, 0),
  'live_parallel_multiple': (24, 0),
  'live_irrelevance': (884, 0),
  'live_relevance': (16, 0),
}


@pytest.mark.parametrize('category', COUNTS)
def test_the_oracle_is_right(category):
  env, (count, beyond) = bfcl.make(category=category), COUNTS[category]
  tasks = [env.task(base.HELD_OUT, index) for index in range(count)]
  rewards = [base.play(env, t, env.oracle, 2)[0].turn.reward for t in tasks]
  assert sum(rewards) == count - beyond
  assert len({task.id for task in tasks}) == count
  with pytest.raises(ValueError, match=f'there are {count} tasks'):
    env.task(base.HELD_OUT, count)


@pytest.mark.parametrize('category', COUNTS)
def test_calls_at_random_are_wrong(category):
  env, rng = bfcl.make(category=category), np.random.default_rng(0)
  act = lambda state: bfcl.at_random(state, rng)
  tasks = [env.task(base.HELD_OUT, i) for i in range(16)]
  rewards = [base.play(env, t, act, 2)[0].turn.reward for t in tasks]
  assert np.mean(rewards) <= (category == 'live_relevance')


@pytest.fixture(scope='module')
def package():
  """The package's own checker, without the models that it imports."""
  models = types.ModuleType('bfcl_eval.constants.model_config')
  spelling = types.SimpleNamespace(underscore_to_dot=False)
  models.MODEL_CONFIG_MAPPING = {'ours': spelling}
  stubs = {'bfcl_eval.constants.model_config': models}
  for name in ('tree_sitter', 'tree_sitter_java', 'tree_sitter_javascript'):
    stubs[name] = types.ModuleType(name)
    stubs[name].Language = stubs[name].Parser = object
  with pytest.MonkeyPatch.context() as patch:
    for name, module in stubs.items():
      patch.setitem(sys.modules, name, module)
    try:
      from bfcl_eval.constants import enums
      from bfcl_eval.eval_checker.ast_eval import ast_checker
    except ImportError as error:
      pytest.skip(f"the package's checker cannot be imported: {error}")
    yield lambda task, made: ast_checker.ast_checker(
      task.data['functions'],
      [{call.name: dict(call.arguments)} for call in made],
      task.data['wanted'],
      enums.Language.PYTHON,
      task.id.split('/')[1],
      'ours',
    )['valid']


def changed(call, rng):
  """A call with something done to one of its arguments."""
  given = dict(call.arguments)
  if not given:
    return call._replace(arguments={'more': 1})
  name = rng.choice([*given])
  value = given.pop(name)
  options = [value, str(value), [value], rng.choice([None, True, 7, 1.5])]
  match value:
    case str():
      options += [value.upper(), value.replace(' ', '-'), value + 's']
    case int() | float():
      options += [value + 1, float(value), -value]
    case list():
      options += [tuple(value), value[::-1], value[:-1], value + [1]]
    case dict():
      options += [dict([*value.items()][:-1]), {**value, 'more': 1}]
  match rng.randrange(6):
    case 0:
      pass  # left out
    case 1:
      given |= {name: value, 'more': 1}
    case _:
      given[name] = rng.choice(options)
  return call._replace(arguments=given)


@pytest.mark.parametrize(
  'category', [c for c in COUNTS if 'relevance' not in c]
)
def test_what_fits_is_what_the_package_says(category, package):
  env, rng = bfcl.make(category=category), random.Random(0)
  verdicts = []
  for index in range(min(COUNTS[category][0], 150)):
    task = env.task(base.HELD_OUT, index)
    best = call_syntax_python.read(bfcl.answer(task))
    for _ in range(8):
      made = [*best]
      at = rng.randrange(len(made))
      made[at] = changed(made[at], rng)
      rng.shuffle(made)
      ours = bfcl_match.all_fit(
        made, task.data['functions'], task.data['wanted']
      )
      assert ours == package(task, made), (task.id, made)
      verdicts.append(ours)
  assert 0.1 < np.mean(verdicts) < 0.9


def test_how_a_reply_is_read():
  env = bfcl.make()
  state = env.reset(env.task(base.HELD_OUT, 0))
  says = lambda text: env.step(state, text)[1].reward
  right = 'calculate_triangle_area(base=10, height=5)'
  assert says(right) == says(f'[{right}]') == 1.0
  assert says(f'```python\n[{right}]\n```') == 1.0
  assert says(f'<think>{right}</think>{right}') == 1.0
  assert says(f'<think>{right}') == 0.0
  assert says(f'{right}, {right}') == 0.0
  assert says(f'I call {right}') == 0.0
  assert says('calculate_triangle_area(10, 5)') == 0.0
  assert says("calculate_triangle_area(base='10', height=5)") == 0.0
  assert says('') == says('[]') == says('no') == 0.0


def test_nothing_is_right_where_no_function_helps():
  env = bfcl.make(category='irrelevance')
  state = env.reset(env.task(base.HELD_OUT, 0))
  says = lambda text: env.step(state, text)[1].reward
  name = state.task.data['functions'][0]['name']
  assert says('I cannot do that.') == says('[]') == 1.0
  assert says(f'[{name}()]') == says('<think>hm') == 0.0


def test_there_is_nothing_to_train_on():
  with pytest.raises(ValueError, match='evaluation set and has no tasks to tr'):
    bfcl.make().task(base.TRAIN, 0)
  with pytest.raises(ValueError, match="no category 'java'; categories: simp"):
    bfcl.make(category='java')


def test_a_state_is_a_snapshot():
  env = bfcl.make()
  state = env.reset(env.task(base.HELD_OUT, 3))
  kept = [env.step(state, text) for text in ('f()', env.oracle(state), 'f()')]
  assert kept[0] == kept[2] != kept[1]
  with pytest.raises(ValueError, match='reset first'):
    env.step(kept[0][0], 'f()')
