"""Mixtures: what is drawn, and that each part is played as if it were alone."""

import collections
import json

import numpy as np
import pytest

from arl.envs import base, calls, gridworld, mixture, tools

TOOLS = {'name': 'tools.make', 'max_hops': 1}
LAKE = {'name': 'gridworld.make', 'size': 3, 'holes': 2}


def both(**weights):
  return mixture.make(
    parts={'desk': TOOLS, 'lake': LAKE}, weights=weights or None
  )


def drawn(env, split, count=400):
  return [env.task(split, i).data[mixture.PART] for i in range(count)]


def test_parts_are_drawn_by_their_weights():
  counts = collections.Counter(drawn(both(desk=3, lake=1), base.TRAIN, 2000))
  assert abs(counts['desk'] / 2000 - 0.75) < 0.03
  alike = collections.Counter(drawn(both(), base.TRAIN, 2000))
  assert abs(alike['desk'] / 2000 - 0.5) < 0.03


def test_a_task_depends_on_split_and_index_alone():
  env, again = both(), both()
  for index in (0, 7, 123):
    assert env.task(base.TRAIN, index) == again.task(base.TRAIN, index)
  assert drawn(env, base.TRAIN) != drawn(env, base.HELD_OUT)


def test_no_id_is_in_both_splits_or_parts():
  env = mixture.make(parts={'one': TOOLS, 'two': TOOLS})
  ids = [env.task(s, i).id for s in base.SPLITS for i in range(100)]
  assert len(set(ids)) == 200
  assert {id.partition('/')[0] for id in ids} == {'one', 'two'}


def test_tasks_are_those_of_the_parts_and_say_which():
  env, alone = both(), tools.make(max_hops=1)
  index = drawn(env, base.TRAIN).index('desk')
  task, inner = (e.task(base.TRAIN, index) for e in (env, alone))
  assert task.prompt == inner.prompt and task.id == f'desk/{inner.id}'
  assert task.data == {**inner.data, 'part': 'desk'}
  assert json.loads(json.dumps(task.data)) == task.data
  assert env.reset(task) == mixture.State('desk', alone.reset(inner))


@pytest.mark.parametrize('part', ['desk', 'lake'])
def test_each_part_is_played_to_its_end(part):
  env = both()
  index = drawn(env, base.TRAIN).index(part)
  task = env.task(base.TRAIN, index)
  played = base.play(env, task, env.oracle, 20)
  assert played[-1].turn.done and sum(e.turn.reward for e in played) == 1
  rng = np.random.default_rng(0)
  assert env.noisy(env.reset(task), rng)


def test_what_all_parts_tell_is_told():
  env = mixture.make(
    parts={'near': TOOLS, 'far': {'name': 'tools.make', 'max_hops': 2}}
  )
  task = env.task(base.TRAIN, 3)
  assert env.answer(task) == f'={task.data["answer"]}'
  assert env.scores_steps and env.parts is tools.make().parts
  state = env.reset(task)
  assert env.anchor(state) == f'{task.data["part"]}: {task.prompt}'
  assert [tool.name for tool in env.tools] == ['calc', 'get']


def test_what_one_part_does_not_tell_is_not_told():
  env = both()
  lake = gridworld.make()
  assert (env.answer is None) == (lake.answer is None)
  assert env.parts is None and env.harness is None
  assert env.scores_steps == lake.scores_steps


def other_tool():
  """A desk with a calculator of its own."""
  mine = calls.Tool('calc', 'counts', {'type': 'object'}, str)
  return tools.make()._replace(tools=[mine])


def task_of_a_part():
  env = tools.make()
  task = env.task(base.TRAIN, 0)
  marked = task._replace(data={**task.data, 'part': 'x'})
  return env._replace(task=lambda split, index: marked)


@pytest.mark.parametrize(
  'parts, weights, words',
  [
    ({'a': TOOLS}, None, 'mixture: parts has 1; give two or more'),
    ({'a': TOOLS, 'b': {}}, None, "mixture: the part 'b' needs a name"),
    ({'a': TOOLS, 'b': LAKE}, {'a': 1}, 'give each part one, above 0'),
    ({'a': TOOLS, 'b': LAKE}, {'a': 1, 'b': 0}, 'give each part one, above 0'),
    (
      {'a': TOOLS, 'b': {'name': 'test_mixture.other_tool'}},
      None,
      "mixture: the tool 'calc' of the part 'b' is not that of an earlier part",
    ),
  ],
)
def test_what_is_no_mixture(parts, weights, words):
  with pytest.raises(ValueError, match=words):
    mixture.make(parts=parts, weights=weights)


def test_a_mixture_of_mixtures_is_refused():
  part = {'name': 'test_mixture.task_of_a_part'}
  env = mixture.make(parts={'a': part, 'b': part})
  with pytest.raises(ValueError, match="has a 'part' already; put the parts"):
    env.task(base.TRAIN, 0)


def test_splits_and_indices_that_are_none():
  for split, index in (('test', 0), (base.TRAIN, -1)):
    with pytest.raises(ValueError, match='mixture: '):
      both().task(split, index)
