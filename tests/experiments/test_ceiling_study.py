"""The toy of the ceiling: the rare is lost, and the common is learnt."""

import numpy as np
import pytest

from experiments.studies import ceiling_toy

BASE = np.array(ceiling_toy.START)


@pytest.fixture(scope='module')
def trained():
  return ceiling_toy.after(seed=0)


def test_the_base_gives_the_rare_answer_once_in_a_thousand():
  assert BASE.sum() == pytest.approx(1)
  assert BASE[ceiling_toy.RIGHT[1]] == 1e-3


def test_pass_at_k_is_exact():
  rng = np.random.default_rng(0)
  said = rng.choice(4, p=BASE, size=(100_000, 4))
  found = [np.any(said == right, axis=1).mean() for right in ceiling_toy.RIGHT]
  assert ceiling_toy.pass_at(BASE, 4) == pytest.approx(np.mean(found), abs=5e-3)


def test_training_raises_pass_at_1_and_lowers_pass_at_many(trained):
  assert trained.sum() == pytest.approx(1, rel=1e-5)
  for k, sign in ((1, 1), (4096, -1)):
    before, after = (ceiling_toy.pass_at(x, k) for x in (BASE, trained))
    assert sign * (after - before) > 0.1


def test_without_steps_nothing_changes():
  np.testing.assert_allclose(ceiling_toy.after(0, steps=0), BASE, rtol=1e-5)
