import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl import episode
from arl.methods import compose, grpo, reinforce
from arl.train import batch

ROWS, WIDTH = 4, 12


def make(objective, parts):
  return batch.make(
    tiny.learner(objective, rows=ROWS),
    None,
    parts,
    width=WIDTH,
    max_turns=2,
    from_loop=lambda needs, shape: {},
  )


def failed(member, error='it broke'):
  return member._replace(status=episode.ENVIRONMENT_ERROR, error=error)


def test_tokens_of_other_weights_stop_a_run():
  (member,) = tiny.episodes(1, 1)
  n = len(member.tokens)

  def sampled(*versions):
    version = np.resize(versions, n).astype(np.int32)
    return member._replace(extras={'rollout_version': version})

  batch.check_versions([member, sampled(-1), sampled(-1, 3, 3)], 3)
  with pytest.raises(RuntimeError, match=r'version \[2\], .* given version 3;'):
    batch.check_versions([sampled(3), sampled(-1, 2, 3)], 3)


def earning(member, reward):
  rewards = np.zeros_like(member.rewards)
  rewards[-1] = reward
  return member._replace(rewards=rewards)


def test_groups_are_dealt_out_whole():
  groups = episode.groups(tiny.episodes(5, 3))
  parts = batch.updates(groups, 2)
  ids = [[e.task.id for e in part] for part in parts]
  assert ids == [
    ['task/0'] * 3 + ['task/2'] * 3 + ['task/4'] * 3,
    ['task/1'] * 3 + ['task/3'] * 3,
  ]
  assert batch.updates(groups[:1], 2) == [list(groups[0].episodes), []]


def test_failures_are_put_up_with_up_to_a_share():
  members = tiny.episodes(2, 4)
  some = [failed(e) if i < 2 else e for i, e in enumerate(members)]
  batch.check_failed(some, 0.25)
  with pytest.raises(RuntimeError) as error:
    batch.check_failed([failed(e) for e in members[:3]] + members[3:], 0.25)
  assert str(error.value) == (
    '3 of 8 episodes failed, more than rollout.max_failed = 0.25; mend the'
    " environment, or raise that. The first, of task 'task/0':"
    ' environment_error: it broke'
  )


def advantages(data, index, members):
  return [
    batch.advantage_of(data, i, len(e.tokens))[e.mask][0]
    for i, e in enumerate(members)
  ]


def test_an_episode_without_a_grade_is_not_in_the_group():
  # With the failed one as a reward of 0 the mean would be 0.5.
  members = [earning(e, r) for e, r in zip(tiny.episodes(1, 4), [1, 0, 1, 0])]
  members[3] = failed(members[3])
  graded = [e for e in members if episode.graded(e)]
  data = make(grpo.dr_grpo(), batch.updates(episode.groups(graded), 1))
  found = advantages(data, 0, graded)
  np.testing.assert_allclose(found, [1 / 3, -2 / 3, 1 / 3], rtol=1e-6)
  assert int(jnp.sum(data.columns['segments'][:, 0] > 0)) <= 3


def test_an_update_has_the_columns_and_credit_of_its_episodes():
  members = tiny.episodes(2, 4)
  parts = batch.updates(episode.groups(members), 2)
  data = make(grpo.dr_grpo(), parts)
  assert data.sampled and data.columns['tokens'].shape == (2 * ROWS, WIDTH)
  for index, part in enumerate(parts):
    columns, credits = jax.device_get(batch.update(data, index, ROWS))
    tokens = columns['tokens'][columns['segments'] > 0]
    mine = np.concatenate([e.tokens for e in part])
    assert sorted(tokens) == sorted(mine)
    mean = np.mean([episode.total_reward(e) for e in part])
    for i, e in enumerate(part):
      where = (columns['seq'].ids == index * ROWS + i) & columns['mask']
      assert where.sum() == e.mask.sum()
      want = episode.total_reward(e) - mean
      got = credits['policy']['advantage'][where]
      np.testing.assert_allclose(got, np.full(len(got), want), atol=1e-6)


def test_all_episodes_are_told_at_once():
  groups = episode.groups(tiny.episodes(3, 2))
  asked = []

  def tell(episodes):
    asked.append(len(episodes))
    return [e._replace(extras={'at': i}) for i, e in enumerate(episodes)]

  parts = batch.updates(groups, 2, tell)
  assert asked == [6] and [len(part) for part in parts] == [4, 2]
  assert [e.extras['at'] for part in parts for e in part] == list(range(6))
  plain = batch.updates(groups, 2)
  assert [[e.task for e in part] for part in parts] == [
    [e.task for e in part] for part in plain
  ]


def test_demonstrations_are_dealt_out_like_samples():
  # In the order of `demonstrations.beside`: all samples, then all the others.
  members = tiny.episodes(4, 3)
  shown = [
    e._replace(task=e.task._replace(id=f'{e.task.id}/demonstration'))
    for e in members[::3]
  ]
  parts = batch.updates(episode.groups([*members, *shown]), 2)
  for part in parts:
    ids = [e.task.id for e in part]
    assert len(ids) == 8 and sum('demonstration' in i for i in ids) == 2


def test_whole_groups_keep_the_place_of_an_episode():
  members = [earning(e, r) for r, e in enumerate(tiny.episodes(3, 2))]
  learner = tiny.learner(grpo.dr_grpo(), rows=8)._replace(block=4)
  data = batch.make(
    learner, None, [members], width=WIDTH, max_turns=2,
    from_loop=lambda needs, shape: {},
  )  # fmt: skip
  for i, e in enumerate(members):
    found = batch.advantage_of(data, i, len(e.tokens))
    want = 0.5 if e.sample else -0.5
    np.testing.assert_allclose(found, np.where(e.mask, want, 0), atol=1e-6)


def test_an_update_without_episodes_is_padding():
  data = make(reinforce.reinforce(), [tiny.episodes(1, 3), []])
  columns, _ = batch.update(data, 1, ROWS)
  assert not np.any(columns['mask'])


def test_the_advantage_of_one_episode_lies_on_its_tokens():
  members = [earning(e, r) for e, r in zip(tiny.episodes(1, 2), [3, 1])]
  data = make(grpo.dr_grpo(), [members])
  for i, (e, want) in enumerate(zip(members, [1, -1])):
    found = batch.advantage_of(data, i, len(e.tokens))
    np.testing.assert_allclose(found, np.where(e.mask, want, 0), atol=1e-6)


def test_what_the_columns_show():
  (member,) = tiny.episodes(1, 1)
  data = make(grpo.dapo(), [[member]])
  gap = np.abs(-2 - member.logp[member.mask])
  np.testing.assert_allclose(data.metrics['mismatch/max'], gap.max(), rtol=1e-6)
  np.testing.assert_allclose(data.metrics['train/entropy'], 1, rtol=1e-6)


# --- Where episodes come from -------------------------------------------------


def demonstrated(member):
  return member._replace(
    logp=np.where(member.mask, np.nan, 0).astype(np.float32)
  )


IMITATION = compose.Term(
  'imitation', (('loss', lambda logp: -logp),), lambda mask: mask * 1.0
)


def test_demonstrations_are_for_imitation():
  members = [demonstrated(e) for e in tiny.episodes(1, 2)]
  data = make(IMITATION, [members])
  assert not data.sampled and data.metrics == {}
  batch.check_origin('terms.imitation', data)
  with pytest.raises(ValueError) as error:
    batch.check_origin('grpo.dapo', make(grpo.dapo(), [members]))
  assert str(error.value) == (
    'grpo.dapo estimates a policy gradient, but its episodes were not sampled'
    ' by the policy: their log-probs are nan; choose a rollout.strategy that'
    ' samples, or method.name = terms.imitation.'
  )


def test_samples_are_for_methods_with_credit():
  members = tiny.episodes(1, 2)
  batch.check_origin('grpo.dapo', make(grpo.dapo(), [members]))
  with pytest.raises(ValueError) as error:
    batch.check_origin('terms.imitation', make(IMITATION, [members]))
  assert str(error.value) == (
    'terms.imitation imitates its episodes whatever they earned, but the policy'
    ' sampled them itself, which teaches it nothing; choose a rollout.strategy'
    ' of demonstrations, or a method with an advantage.'
  )
