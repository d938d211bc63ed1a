"""An evaluation set in two parts, which share no task."""

import pytest

from arl.envs import base, divided, tools

TOOLS = {'name': 'tools.make', 'max_hops': 1}


def test_the_parts_are_all_tasks_once_in_their_order():
  env = divided.make(env=TOOLS, first=5, tasks=8)
  whole = tools.make(max_hops=1)
  made = [
    *(env.task(base.TRAIN, i) for i in range(5)),
    *(env.task(base.HELD_OUT, i) for i in range(3)),
  ]
  for index, task in enumerate(made):
    inner = whole.task(base.HELD_OUT, index)
    assert task == inner._replace(id=f'divided/{inner.id}')
  assert len({task.id for task in made}) == 8


def test_the_rest_is_as_without():
  env = divided.make(env=TOOLS, first=1, tasks=2)
  played = base.play(env, env.task(base.TRAIN, 0), env.oracle, 9)
  assert played[-1].turn.reward == 1


@pytest.mark.parametrize('split, index', [('train', 5), ('held_out', 3)])
def test_a_task_of_the_other_part_is_refused(split, index):
  env = divided.make(env=TOOLS, first=5, tasks=8)
  with pytest.raises(ValueError, match=f'index {index} .*{split}.* {index} t'):
    env.task(split, index)


@pytest.mark.parametrize('split, index', [('train', -1), ('test', 0)])
def test_what_is_no_split_or_index_is_refused(split, index):
  env = divided.make(env=TOOLS, first=5, tasks=8)
  with pytest.raises(ValueError, match='divided: '):
    env.task(split, index)


@pytest.mark.parametrize('first', [-1, 0, 8, 9])
def test_a_part_without_a_task_is_refused(first):
  with pytest.raises(ValueError, match='leave each part one'):
    divided.make(env=TOOLS, first=first, tasks=8)


def test_a_block_without_a_name_is_refused():
  with pytest.raises(ValueError, match='divided: env needs a name'):
    divided.make(env={}, first=1, tasks=2)
