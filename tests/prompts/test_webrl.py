"""Failures seed tasks, and successes come back."""

import json

import numpy as np
import pytest
import test_rejection
import test_replay_buffer
import test_select
import tiny

from arl import episode
from arl.envs import arithmetic, base, keydoor, tools
from arl.prompts import curricula, replay, webrl

ENVS = {
  'keydoor': keydoor.make(length=3),
  'tools': tools.make(),
  'arithmetic': arithmetic.make(digits=4),
}


@pytest.mark.parametrize('name', ENVS)
@pytest.mark.parametrize('split', base.SPLITS)
def test_variations_are_tasks_of_their_split(name, split):
  env, rng = ENVS[name], np.random.default_rng(0)
  for index in range(12):
    task = env.task(split, index)
    ids = {task.id}
    for _ in range(4):
      task = env.vary(task, rng)  # variations vary again
      assert task.id not in ids and f'/{split}/varied/' in task.id
      assert task.id.count('varied') == 1
      ids.add(task.id)
      made = episode.task_from_json(
        json.loads(json.dumps(episode.task_to_json(task)))
      )
      played = base.play(env, made, env.oracle, 20)
      assert sum(one.turn.reward for one in played) == 1
      same = base.play(env, task, env.oracle, 20)
      assert [one.action for one in played] == [one.action for one in same]


def test_variations_are_no_harder():
  env, rng = ENVS['keydoor'], np.random.default_rng(1)
  task = env.task(base.TRAIN, 0)
  lengths = {len(env.vary(task, rng).data['sides']) for _ in range(40)}
  assert lengths == {1, 2, 3}


def pool(env=None, batch=4):
  return curricula.Pool(env or ENVS['keydoor'], 8, batch, 0)


def group(task, solved, tried=4):
  made = test_select.group(
    task.id, *([1.0 * (i < solved)] for i in range(tried))
  )
  own = [one._replace(task=task) for one in made.episodes]
  return episode.Group(task, own)


def run(made, steps, solve, told=None):
  state, seen = made.begin(), []
  for step in range(steps):
    state = json.loads(json.dumps(state))
    tasks, state = made.choose(state, step)
    groups = [group(task, solve(task)) for task in tasks]
    state, facts = made.observe(state, groups, told or curricula.Told())
    seen.append((tasks, facts))
  return seen, state


def test_failures_of_a_phase_seed_the_next():
  seen, _ = run(webrl.phases(pool(), steps=2), 4, lambda task: 0)
  assert all('varied' not in t.id for tasks, _ in seen[:2] for t in tasks)
  assert seen[1][1]['made'] == 8 == seen[1][1]['kept']
  assert all('varied' in t.id for tasks, _ in seen[2:] for t in tasks)
  ids = [t.id for tasks, _ in seen[2:] for t in tasks]
  assert len(set(ids)) == 8
  assert seen[2][1]['varied'] == 0


def test_without_failures_there_are_no_new_tasks():
  seen, _ = run(webrl.phases(pool(), steps=1), 4, lambda task: 4)
  assert all('varied' not in t.id for tasks, _ in seen for t in tasks)
  assert seen[0][1] == {'made': 0, 'kept': 0}


def test_a_critic_keeps_what_it_expects_between_the_bounds():
  def values(tasks):
    return [0.5 if len(t.data['sides']) == 2 else 0.9 for t in tasks]

  told = curricula.Told(values=values)
  made = webrl.phases(pool(), steps=2)
  seen, state = run(made, 2, lambda task: 0, told)
  facts = seen[1][1]
  assert 0 < facts['kept'] < facts['made'] and facts['predicted'] == 0.5
  assert len(state['varied']) == facts['kept']
  assert all(len(one['data']['sides']) == 2 for one in state['varied'])


def test_rollouts_judge_where_there_is_no_critic():
  made = webrl.phases(pool(batch=2), steps=3)
  solve = lambda task: (
    {1: 4, 2: 2, 3: 0}[len(task.data['sides'])] if 'varied' in task.id else 0
  )
  _, state = run(made, 3 + 2, solve)
  _, later = run(made, 3 + 1, solve)
  assert len(state['varied']) <= len(later['varied'])
  tried = state['varied'][: state['next']]
  assert all(len(one['data']['sides']) == 2 for one in tried)


def test_an_environment_that_cannot_vary_is_refused():
  with pytest.raises(ValueError, match='asks the environment to vary tasks'):
    webrl.phases(pool(tiny.letters()))
  with pytest.raises(ValueError, match='low 0.8 is not below high 0.75'):
    webrl.phases(pool(), low=0.8)


# --- Replay -------------------------------------------------------------------


def item(*actions, name='a', version=0, **more):
  made = test_rejection.group(test_rejection.said(*actions, **more))
  return replay.Item(made._replace(task=made.task._replace(id=name)), version)


def draw(ring, buffer, fresh, chance=0.7):
  def score(episodes):
    return [np.full(len(one.tokens), np.log(chance)) for one in episodes]

  at = test_replay_buffer.now(3, max_age=9, score=score)
  return ring.draw(tuple(buffer), fresh, at)


def test_right_ones_are_kept_and_come_back():
  ring = webrl.successes(times=2)
  fresh = [item('aa', version=3), item('bb', reward=0.0, version=3)]
  first = draw(ring, (), fresh)
  assert first.items == fresh and len(first.buffer) == 1
  second = draw(ring, first.buffer, [item('c', version=3)])
  assert len(second.items) == 2 and second.facts['drawn'] == 1
  (again,) = second.items[1].group.episodes
  assert episode.total_reward(again) == 1
  np.testing.assert_allclose(again.logp[again.mask], -0.1, rtol=1e-6)


@pytest.mark.parametrize('chance, count', [(0.5, 0), (0.51, 1), (0.96, 0)])
def test_by_how_likely_they_are_now(chance, count):
  ring = webrl.successes()
  drawn = draw(ring, [item('aa')], [item('c', version=3)], chance)
  assert drawn.facts['drawn'] == count == len(drawn.items) - 1
  assert len(drawn.buffer) == 2  # it may be likelier another time


def test_at_most_twice_as_many_as_are_new():
  buffer = [item('aa', name=str(i)) for i in range(9)]
  ring = webrl.successes(times=2)
  assert draw(ring, buffer, [item('c', version=3)]).facts['drawn'] == 2
  assert ring.extra(4) == 8


def test_turns_that_count_alone_are_learnt_and_earn_the_whole():
  one = test_rejection.said('aa', 'bb')
  old = replay.Item(test_rejection.group(one), 0)

  def score(episodes):
    (each,) = episodes
    return [np.where(each.turn == 0, np.log(0.7), np.log(0.99))]

  at = test_replay_buffer.now(1, max_age=9, score=score)
  drawn = webrl.successes().draw((old,), [item('c', version=1)], at)
  (again,) = drawn.items[1].group.episodes
  assert set(again.turn[again.mask]) == {0}
  assert again.rewards[again.mask].tolist() == [0, 1]
  assert episode.total_reward(again) == 1
