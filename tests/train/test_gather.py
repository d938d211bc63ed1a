"""What a step trains on, and which settings of it are refused."""

import pytest
import tiny

from arl import episode
from arl.train import build, choosing, evaluation, gather


def refusal(**blocks):
  with pytest.raises(ValueError) as error:
    build.check(tiny.config('some/folder', **blocks))
  return str(error.value)


def test_groups_of_one_task_are_kept_apart():
  first, second = episode.groups(tiny.episodes(2, 2))
  groups = [first, second, first, first]
  made = gather.distinct(groups)
  a, b = first.task.id, second.task.id
  assert [g.task.id for g in made] == [a, b, f'{a}/again/1', f'{a}/again/2']
  assert made[0] is groups[0]
  for group in made:
    assert {e.task.id for e in group.episodes} == {group.task.id}


def test_no_two_rounds_share_their_randomness():
  others = (evaluation.WATCHING, evaluation.FINAL, evaluation.SHOWING)
  paths = [evaluation.training_path(s, r) for s in range(4) for r in range(5)]
  assert len(set(paths)) == 20 and len({len(path) for path in paths}) == 1
  assert not {path[0] for path in paths} & set(others)
  assert evaluation.training_path(3, 0) == (evaluation.TRAINING, 3)


REPLAY = {'name': 'replay.mixture', 'size': 8}


@pytest.mark.parametrize(
  'prompts, words',
  [
    ({'rounds': 0}, 'config.prompts.rounds is 0; it must be at least 1.'),
    ({'scale': -1.0}, 'config.prompts: max_age 0, scale -1.0 and least_spread'),
    ({'least_spread': 1.0}, 'config.prompts: max_age 0, scale 0.0 and least_'),
    ({'max_age': 1}, 'config.prompts.max_age is 1, but nothing is left over'),
    ({'replay': REPLAY}, "config.prompts.replay is 'replay.mixture', but"),
    (
      {'replay': REPLAY, 'max_age': 1},
      'config.prompts.max_age is 1, but grpo.dapo takes what older weights',
    ),
    (
      {'rounds': 2, 'max_age': 1},
      'config.prompts.max_age is 1, but grpo.dapo takes what older weights',
    ),
    ({'choose': {'name': 'estimates.kalman'}}, "'estimates.kalman' names no"),
    (
      {'choose': {'name': 'estimates.mopps', 'keep': 2.0}},
      'estimates.mopps: keep is 2.0; it must be in [0, 1].',
    ),
  ],
)
def test_settings_that_cannot_work(prompts, words):
  assert refusal(prompts=prompts).startswith(words)


PARTS = {'max_age': 2, 'in_flight': 8}


@pytest.mark.parametrize(
  'blocks, words',
  [
    ({'prompts': {'in_flight': 4}}, 'config.rollout.budget is 0 and prompts'),
    (
      {'rollout': {'budget': 3}, 'prompts': {**PARTS, 'rounds': 2}},
      'config.rollout.budget is 3, but prompts.rounds is 2; episodes',
    ),
    (
      {
        'rollout': {'budget': 3, 'strategy': 'branching.tree'},
        'prompts': PARTS,
      },
      "config.rollout.budget is 3, but rollout.strategy is 'branching.tree';",
    ),
    (
      {'rollout': {'budget': 3}, 'prompts': {**PARTS, 'in_flight': 3}},
      'config.rollout.budget is 3: set prompts.in_flight (3) to at least',
    ),
    (
      {'rollout': {'budget': 3}, 'prompts': PARTS},
      'config.prompts.max_age is 2, but grpo.dapo takes what older weights',
    ),
  ],
)
def test_parts_that_cannot_work(blocks, words):
  assert refusal(**blocks).startswith(words)


def test_who_may_learn_from_older_weights():
  corrected = {
    'offpolicy.tis': True,
    'grpo.dapo': False,
    'ppo.ppo': False,
    'terms.imitation': True,
  }
  for name, may in corrected.items():
    block = tiny.config('some/folder', method={'name': name}).method
    assert choosing.corrected(block) == may


def test_streams_without_results_refuse_what_needs_them():
  config = tiny.config('some/folder', prompts={'rounds': 2})
  with pytest.raises(ValueError, match='config.prompts.rounds is 2, but here'):
    choosing.task_stream(config, tiny.letters())


def test_rows_of_an_update_hold_what_a_replay_adds():
  config = tiny.config('some/folder')
  assert choosing.most_groups(config) == 4
