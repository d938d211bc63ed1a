"""Known faults of groups, baselines and returns."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
import tiny

import arl
from arl import episode
from arl.kernels import advantages
from arl.methods import terms
from arl.rollout import pack, scripted
from arl.train import batch as batch_lib

pytestmark = pytest.mark.usefixtures('compiled_once')
ROWS = 16
IMITATION = arl.method(terms.imitation())
# Methods that compare the rollouts of a task.
COMPARING = (
  'grpo.grpo',
  'grpo.dr_grpo',
  'grpo.liteppo',
  'reinforce.rloo',
  'reinforce.opo',
  'reinforce.reinforce_pp_baseline',
)


@functools.cache
def credit(name):
  return jax.jit(arl.method(arl.make(name)).credit)


def earning(rewards, ids, tokens=None):
  """An episode a reward, of the task that its id names."""
  sizes = tokens or [1] * len(ids)
  return [
    plain.made([1] * (n + 1), [0] + [1] * n, rewards=r, id=id)
    for r, id, n in zip(rewards, ids, sizes, strict=True)
  ]


def advantage(name, episodes, place=pack.pad, rows=ROWS, width=8):
  """The advantage of each episode, in their order."""
  batch = plain.columns(episodes, rows=rows, width=width, place=place)
  made = np.asarray(credit(name)(batch)['policy']['advantage'])
  ids = np.broadcast_to(batch['seq'].ids, made.shape)
  found = [
    np.unique(made[batch['mask'] & (ids == i)]) for i in range(len(episodes))
  ]
  assert all(len(each) == 1 for each in found)
  assert not np.any(made[~batch['mask']])
  return np.concatenate(found)


MIXED = [2, 4, 10, 12, 20], ['a', 'b', 'a', 'b', 'a']
CENTERED = [-8.66667, -4, -0.66667, 4, 9.33333]
SAMPLE = [-0.96099, -0.70711, -0.07392, 0.70711, 1.03491]
POPULATION = [-1.17696, -1, -0.09054, 1, 1.2675]


@pytest.mark.parametrize('place', [pack.pad, pack.pack])
def test_14_a_group_is_the_rollouts_of_one_task(place):
  episodes = earning(*MIXED)
  for name, want in (('grpo.dr_grpo', CENTERED), ('grpo.grpo', SAMPLE)):
    found = advantage(name, episodes, place)
    np.testing.assert_allclose(found, want, atol=1e-5)


def test_14_the_deviation_is_a_choice_that_is_written_down():
  kernel = functools.partial(advantages.group_normalize, ddof=0)
  method = arl.method(arl.make('grpo.grpo')._replace(advantage=kernel))
  batch = plain.columns(earning(*MIXED))
  found = jax.jit(method.credit)(batch)['policy']['advantage'][:, 1]
  np.testing.assert_allclose(found, POPULATION, atol=1e-5)


@hypothesis.settings(deadline=None, max_examples=30)
@hypothesis.given(st.data())
def test_14_order_lengths_and_packing_change_no_advantage(data):
  """Shuffled, dealt out to updates and packed: the same, and sums of 0."""
  count = data.draw(st.integers(2, ROWS))
  ids = data.draw(st.lists(st.sampled_from('abcd'), min_size=count,
                           max_size=count))  # fmt: skip
  rewards = data.draw(st.lists(st.integers(-9, 9), min_size=count,
                               max_size=count))  # fmt: skip
  sizes = data.draw(st.lists(st.integers(1, 6), min_size=count,
                             max_size=count))  # fmt: skip
  episodes = earning(rewards, ids, sizes)
  rewards, ids = np.float64(rewards), np.array(ids)
  want = rewards - [rewards[ids == one].mean() for one in ids]
  order = data.draw(st.permutations(range(count)))
  place = data.draw(st.sampled_from([pack.pad, pack.pack]))
  shuffled = [episodes[i] for i in order]
  found = advantage('grpo.dr_grpo', shuffled, place)
  np.testing.assert_allclose(found, want[order], atol=1e-5)
  per_batch = data.draw(st.integers(1, 3))
  parts = batch_lib.updates(episode.groups(shuffled), per_batch)
  for part in filter(None, parts):
    told = advantage('grpo.dr_grpo', part, place)
    mine = np.array([e.task.id for e in part])
    for one in set(mine):
      assert abs(told[mine == one].sum()) < 1e-4
      np.testing.assert_allclose(
        np.sort(told[mine == one]), np.sort(want[ids == one]), atol=1e-5
      )


AWKWARD = (0.1, 0.3, 0.35, 0.6, 0.7, 1 / 3, 1.1)


@pytest.mark.parametrize('name', COMPARING)
def test_17_no_spread_is_no_advantage(name):
  for value in AWKWARD:
    for dtype in (jnp.float32, jnp.bfloat16):
      for count in (1, 2, 3, 5, 7, 10, 16):
        same = float(jnp.asarray(value, dtype))
        found = advantage(name, earning([same] * count, ['a'] * count))
        assert np.all(np.abs(found) < 1e-6), (value, count, found)


@pytest.mark.parametrize('name', COMPARING)
def test_17_one_that_differs_stays_of_order_one(name):
  found = advantage(name, earning([0, 1, 1, 1, 1], ['a'] * 5))
  assert np.all(np.isfinite(found)) and np.abs(found).max() < 10
  assert found[0] < 0 < found[1]


@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(
  st.sampled_from(COMPARING),
  st.lists(
    st.tuples(
      st.sampled_from((*AWKWARD, 0.0, 1.0, -1e6, 1e6, 1e-30)),
      st.sampled_from('abc'),
    ),
    min_size=1,
    max_size=ROWS,
  ),
)
def test_17_advantages_are_finite_and_alike_rewards_get_none(name, told):
  rewards, ids = zip(*told)
  found = advantage(name, earning(rewards, ids))
  assert np.all(np.isfinite(found))
  if 'pp_' in name:  # whitened over the batch, which is not of one group
    return
  for one in set(ids):
    mine = [i for i, other in enumerate(ids) if other == one]
    if len({rewards[i] for i in mine}) == 1:
      assert not np.any(found[mine])


GAPS = {
  'mask': [1, 1, 0, 0, 1],
  'rewards': [0, 0, 0, 0, 2],
  'old_value': [0.5, 0.5, 90, -70, 1],
}


def with_prompt(mask, rewards, old_value):
  """Columns of one sequence whose prompt has one token more."""
  one = plain.made([1] * (len(mask) + 1), [0, *mask])
  batch = plain.columns([one], width=8)
  for name, x in (('rewards', rewards), ('old_value', old_value)):
    batch[name] = np.zeros((1, 8), np.float32)
    batch[name][0, 1 : 1 + len(mask)] = x
  return batch


@functools.cache
def estimate(gamma, lam):
  """columns -> the return and the advantage of PPO at each token."""
  ppo = arl.make('ppo.ppo', gamma=gamma, lam=lam, kl_coef=0.0)
  method = arl.method(ppo)

  @jax.jit
  def run(batch):
    target = method.credit(batch)['value']['returns']
    return jnp.where(batch['mask'], target - batch['old_value'], 0)

  return run


@pytest.mark.parametrize(
  'gamma, lam, want',
  [(1.0, 1.0, [1.5, 1.5, 0, 0, 1]), (0.9, 0.8, [0.7564, 1.12, 0, 0, 1])],
)
def test_18_observations_are_skipped_and_cost_no_discount(gamma, lam, want):
  found = estimate(gamma, lam)(with_prompt(**GAPS))[0, 1:6]
  np.testing.assert_allclose(found, want, atol=1e-5)


def test_18_a_return_goes_on_over_an_observation():
  batch = with_prompt(**GAPS)
  made = arl.method(arl.make('reinforce.reinforce', gamma=0.9)).credit(batch)
  found = made['policy']['advantage'][0, 1:6]
  np.testing.assert_allclose(found, [1.62, 1.8, 0, 0, 2], rtol=1e-6)


def recursion(rewards, values, gamma, lam):
  """GAE over actions alone, written out."""
  made, later, after = [], 0.0, 0.0
  for reward, value in zip(rewards[::-1], values[::-1]):
    later = reward + gamma * after - value + gamma * lam * later
    made.append(later)
    after = value
  return made[::-1]


numbers = st.floats(-2, 2, width=32)


@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(
  st.lists(st.tuples(st.booleans(), numbers, numbers), min_size=1, max_size=7),
  st.sampled_from((np.nan, np.inf, -np.inf, 1e9)),
)
def test_18_it_is_the_recursion_over_actions_alone(told, bad):
  mask, rewards, values = (np.array(x) for x in zip(*told))
  on = np.concatenate([[False], mask, np.zeros(7 - len(mask), bool)])
  batch = with_prompt(mask, rewards, values)
  for name in ('rewards', 'old_value'):
    batch[name] = np.where(on, batch[name], np.float32(bad))
  found = np.asarray(estimate(0.9, 0.8)(batch))[0]
  want = recursion(rewards[mask], values[mask], 0.9, 0.8)
  np.testing.assert_allclose(found[on], want, atol=1e-4)
  assert not np.any(found[~on])


@pytest.mark.parametrize('mesh', [(1, 1), (4, 1), (8, 1)])
def test_20_rows_that_fill_up_count_for_nothing(mesh):
  batch = plain.losses([[1, 1], [2], [3, 3, 3], [4], [5, 5]], of=8)
  assert not batch['mask'][5:].any()
  credits = {'imitation': {}}
  start = jnp.float32(1)
  now, metrics = plain.update(
    start, batch, IMITATION, credits, run=plain.planted, mesh=mesh
  )
  np.testing.assert_allclose(metrics['loss/total'], 3, rtol=1e-6)
  np.testing.assert_allclose(now.params, 1 - 3, rtol=1e-6)


class Breaks(Exception):
  pass


def breaking(state, text):
  turn, earns = state
  if turn == 1 and earns is None:
    raise Breaks('the shop is closed')
  done = turn == 1
  return (turn + 1, earns), episode.Turn('7', earns * done if done else 0, done)


def test_20_a_crash_costs_one_rollout_and_is_no_zero():
  earned = iter([1.0, 0.0, 1.0, None])
  world = plain.env()._replace(
    reset=lambda task: (0, next(earned)), step=breaking
  )
  said = scripted.ScriptedEngine(lambda request: [5], 9)
  rolled = plain.roll_out(said, world, samples=4)
  assert [e.status for e in rolled] == [
    *[episode.FINISHED] * 3, episode.ENVIRONMENT_ERROR
  ]  # fmt: skip
  assert 'the shop is closed' in rolled[3].error
  graded = [e for e in rolled if episode.graded(e)]
  found = advantage('grpo.dr_grpo', graded)
  np.testing.assert_allclose(found, [1 / 3, -2 / 3, 1 / 3], atol=1e-6)
  with pytest.raises(ValueError, match='has no grade'):
    plain.columns(rolled)
  batch_lib.check_failed(rolled, 0.25)
  with pytest.raises(RuntimeError, match='1 of 4 episodes failed'):
    batch_lib.check_failed(rolled, 0.2)


@hypothesis.settings(deadline=None, max_examples=20)
@hypothesis.given(st.integers(0, 6), st.sampled_from([pack.pad, pack.pack]))
def test_20_more_padding_changes_no_advantage(seed, place):
  episodes = tiny.episodes(3, 3, seed=seed)
  rewards = [episode.total_reward(e) for e in episodes]
  ids = [e.task.id for e in episodes]
  told = earning(rewards, ids)
  few = advantage('grpo.grpo', told, place, rows=ROWS)
  wide = advantage('grpo.grpo', told, place, rows=ROWS, width=16)
  np.testing.assert_array_equal(few, wide)
