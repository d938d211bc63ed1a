"""The study of steered rollouts: its bills, and its lines from a tiny model."""

import numpy as np
import pytest
import tiny

from arl.rollout import branching, strategies, t2po
from arl.train import build
from experiments.studies import allotting, bills
from experiments.studies import steering as study


@pytest.fixture(scope='module')
def world(tmp_path_factory):
  folder = tiny.write_model(tmp_path_factory.mktemp('study') / 'model')
  return build.world(tiny.config(folder))


@pytest.fixture(scope='module')
def toy(world):
  tasks = bills.held_out(world, 3)
  chains = bills.play(world, strategies.multi_turn, tasks, study.BASE, 0)
  return bills.Toy(world, tasks, chains)


def test_a_bill_counts_what_was_sampled(toy):
  plain = bills.first(toy.chains, study.BASE)
  np.testing.assert_array_equal(plain.tokens, toy.chains.tokens)
  np.testing.assert_array_equal(plain.turns, toy.chains.turns)
  again = bills.play(toy.world, t2po.turns, toy.tasks, 4, 0)
  thrown = [sum(int(e.extras['discarded'].sum()) for e in g)
            for g in again.episodes]  # fmt: skip
  kept = bills.sampled(again.episodes)
  np.testing.assert_array_equal(again.tokens, kept + thrown)
  tree = bills.play(toy.world, branching.two_trees, toy.tasks, 4, 0)
  assert np.all(tree.tokens <= bills.sampled(tree.episodes))


def test_ratios_and_their_intervals():
  left, right = np.array([1.0, 2, 3]), np.array([2.0, 4, 6])
  assert bills.ratio(left, right) == (0.5, [0.5, 0.5])
  value, (low, high) = bills.mean([0, 1] * 50)
  assert value == 0.5 and 0.35 < low < 0.45 and 0.55 < high < 0.65


@pytest.mark.parametrize(
  'measure',
  [allotting.groups, allotting.stops, allotting.cuts, study.retries],
)
def test_lines_are_numbers(toy, measure):
  told = list(measure(toy))
  assert told and len({one.name for one in told}) == len(told)
  for one in told:
    assert np.isfinite(one.value)
    if one.interval:
      low, high = one.interval
      assert low - 1e-4 <= one.value <= high + 1e-4


def test_branches_are_told_from_chains(toy):
  told = {one.name: one.value for one in allotting.branches(toy)}
  assert 0 < told['tree/tokens'] < 1 and 0 < told['tree/calls'] < 1
