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


def test_a_beginning_is_worth_the_mean_of_its_ends():
  got = trees.beginnings(**COLUMNS, copies=COPIES)
  half = 0.5**0.5
  want = [[half, 1.5], [half, -0.5], [-half, -0.5], [-half, -0.5]]
  np.testing.assert_allclose(got, want, atol=1e-4)


def test_copies_weigh_as_one():
  weight = trees.once_of_copies(COPIES)
  np.testing.assert_array_equal(weight, [[0.5, 1]] * 4)
