"""Credit of trees: by hand, and what copies of a token have in common."""

import jax.numpy as jnp
import numpy as np
import worked

from arl import levels
from arl.kernels import advantages, trees

# Two trees of two leaves; the first token of a tree is shared.
REWARDS = jnp.asarray([[0, 1.0], [0, 0], [0, 0], [0, 0]])
COLUMNS = {
  'rewards': REWARDS,
  'mask': jnp.ones((4, 2), bool),
  'seq': worked.sequences(4, 2),
  'group': worked.one_group(4, 2),
  'tree': worked.level([0, 0, 1, 1], 2),
}
COPIES = jnp.asarray([[2, 1]] * 4)
NODE = levels.level(np.array([[0, 1], [0, 2], [3, 4], [3, 5]]), 6)


def test_a_leaf_is_compared_in_its_tree_and_beyond():
  half = 0.5**0.5
  # In a tree of one success +-1/sqrt(2); beyond, 0.75 and -0.25 over 0.5.
  want = [half + 1.5, -half - 0.5, -0.5, -0.5]
  got = trees.tree_normalize(**COLUMNS)
  np.testing.assert_allclose(got, np.repeat(want, 2).reshape(4, 2), atol=1e-5)


def test_a_tree_of_one_leaf_has_no_part_of_its_own():
  alone = {**COLUMNS, 'tree': COLUMNS['seq']}
  del alone['tree']
  want = advantages.group_normalize(**alone)
  got = trees.tree_normalize(**COLUMNS | {'tree': COLUMNS['seq']})
  np.testing.assert_array_equal(got, want)


def test_what_paths_share_gets_the_mean_of_their_advantages():
  advantage = jnp.asarray([[3.0] * 2, [1.0] * 2, [-1.0] * 2, [0.0] * 2])
  got = trees.node_mean(advantage, COLUMNS['mask'], NODE)
  np.testing.assert_allclose(got, [[2, 3], [2, 1], [-0.5, -1], [-0.5, 0]])


def by_branching(node=NODE, **changed):
  columns = {n: COLUMNS[n] for n in ('rewards', 'mask', 'seq')} | changed
  one = jnp.asarray([[2.0] * 2, [-1.0] * 2, [1.0] * 2, [0.0] * 2])
  return np.asarray(trees.by_branching(one, node=node, **columns)), one


def test_what_comes_before_outcomes_that_differ_is_scaled_up():
  got, one = by_branching()
  # The deviation of 1 and 0 is 1/sqrt(2), half of it above the mean.
  part = 0.5**1.5
  want = np.array([[1 + part, 1 - part]] * 2 + [[1, 1]] * 2)
  np.testing.assert_allclose(got, want * one, atol=1e-6)
  np.testing.assert_allclose(got.mean(axis=1), one[:, 0], atol=1e-6)


def test_without_a_branch_nothing_is_scaled():
  alone = levels.level(np.arange(8, dtype=np.int32).reshape(4, 2) // 2, 4)
  for node in (COLUMNS['seq'], alone):
    got, one = by_branching(node)
    np.testing.assert_allclose(got, one, atol=1e-6)


def test_scales_are_cut_and_off_the_mask_there_are_none():
  got, one = by_branching(rewards=50 * REWARDS)
  np.testing.assert_allclose(got[:2] / one[:2], [[2, 0.5]] * 2, atol=1e-6)
  mask = COLUMNS['mask'].at[0, 1].set(False)
  got, _ = by_branching(mask=mask)
  assert got[0, 1] == 0 and np.all(np.isfinite(got))


def test_a_beginning_is_worth_the_mean_of_its_ends():
  got = trees.beginnings(**COLUMNS, copies=COPIES)
  half = 0.5**0.5
  want = [[half, 1.5], [half, -0.5], [-half, -0.5], [-half, -0.5]]
  np.testing.assert_allclose(got, want, atol=1e-4)


def test_copies_weigh_as_one():
  weight = trees.once_of_copies(COPIES)
  np.testing.assert_array_equal(weight, [[0.5, 1]] * 4)
