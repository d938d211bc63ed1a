"""The study of prompts: its worlds are known, and so is what they show."""

import math

import numpy as np
import pytest

from arl.prompts import beliefs, curricula
from experiments.studies import choosing, interrupted, prompt_pool, templates


def test_an_oracle_knows_and_chance_does_not():
  oracle = prompt_pool.drifting(None, 12, 0)
  uniform = prompt_pool.drifting(curricula.shuffled, 12, 0)
  assert oracle['error'] == oracle['error of the chosen'] == 0
  assert oracle['mixed'] > 0.95 > 0.8 > uniform['mixed']
  assert uniform['rollouts'] == 8 / uniform['mixed']


def test_the_share_of_mixed_groups_is_the_binomials():
  rng = np.random.default_rng(0)
  there = prompt_pool.pool(0)
  logits = np.full(300, 1.0)
  made, _, won = prompt_pool.groups(
    [there.task(i) for i in range(300)], logits, rng
  )
  assert all(len(group.episodes) == 8 for group in made)
  chance = beliefs.mixed(beliefs.sigmoid(np.array(1.0)), 8)
  share = np.mean((won > 0) & (won < 8))
  assert abs(share - chance) < 4 * math.sqrt(chance * (1 - chance) / 300)


def test_dynamic_sampling_trains_on_mixed_groups_alone():
  one = prompt_pool.learning(curricula.shuffled, 0, target=0.3)
  many = prompt_pool.learning(curricula.shuffled, 0, rounds=10, target=0.3)
  assert one['without spread'] > 0.1 and many['without spread'] == 0
  assert many['steps'] < one['steps'] and many['rollouts'] > one['rollouts']


def test_a_template_is_low_information_at_full_entropy():
  rng = np.random.default_rng(0)
  odds = np.full((16, 16), 1 / 16)
  told = templates.state_of(odds, rng)
  assert told['entropy'] == pytest.approx(math.log(16))
  assert told['information'] == pytest.approx(0, abs=1e-12)
  assert told['seen'] == pytest.approx(0, abs=1e-12)
  told = templates.state_of(np.eye(16) * 0.999 + 0.001 / 16, rng)
  assert told['information'] > 2.7 and told['seen'] > 2.7


def test_the_filter_keeps_information():
  first, last = templates.train('everything', 0, steps=150)
  assert last['entropy'] > 0.98 * first['entropy']
  assert last['information'] < 0.5 * first['information']
  _, kept = templates.train('mass 0.9', 0, steps=150)
  assert kept['information'] > 1.5 * last['information']
  assert kept['success'] > last['success']


def test_crashes_change_nothing():
  (calm,), (torn,) = (
    [choosing.history(seed, 12, chance) for seed in (0,)]
    for chance in (0.0, 0.3)
  )
  assert calm['crashes'] == 0 < torn['crashes']
  assert calm['trained'] == torn['trained']
  assert calm['most uses'] <= 2


def test_parts_idle_less_and_lose_nothing():
  whole = interrupted.whole(0, 6)
  for way, play in interrupted.WAYS.items():
    told = play(0, 6)
    assert told['lost or twice'] == 0
    if way != 'whole episodes':
      assert told['idle'] < whole['idle']
      assert told['tokens a group'] > 0 and told['parts'] > 1


def test_a_critic_keeps_variations_of_the_right_difficulty():
  told = prompt_pool.growing(80, 0, critic=True)
  assert 0.05 < told['varied'] < 0.75 and told['inside'] > 0.8
  assert told['pool'] > 10 * told['alone']
