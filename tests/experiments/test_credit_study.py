"""The study of credit: its world is exact, and so are its correlations."""

import numpy as np

from experiments.studies import credit


def test_the_policy_is_as_good_as_it_says_and_advantages_are_fair():
  made = credit.world(0.0, 0.57)
  fair = np.sum(made.policy * made.advantage, axis=1)
  np.testing.assert_allclose(fair[~made.over], 0, atol=1e-9)
  rng = np.random.default_rng(0)
  rows = credit.play(made, np.full(4000, made.start), rng)
  success = rows['earned'].sum(axis=1)
  assert set(success) <= {0.0, 1.0}
  assert abs(success.mean() - 0.57) < 0.04  # some have not ended in time
  returns = (rows['earned'] * credit.GAMMA ** np.arange(credit.LONGEST)).sum(1)
  error = 3 * returns.std() / 4000**0.5
  assert abs(returns.mean() - made.value[made.start]) < error


def test_correlations_of_groups_are_those_of_all_their_turns():
  rng = np.random.default_rng(1)
  x, y = rng.normal(size=(2, 12, 5))
  on = rng.random((12, 5)) < 0.7
  sums = credit.moments(x, x + y, on, 3)
  want = np.corrcoef(x[on], (x + y)[on])[0, 1]
  np.testing.assert_allclose(credit.correlation(sums), want, rtol=1e-9)
  assert credit.correlation(credit.moments(0 * x, y, on, 3)) == 0


def test_a_group_graph_is_nearer_than_outcomes():
  made = credit.world(0.0, 0.57)
  found = {n: credit.correlation(x) for n, x in _measured(made).items()}
  assert found['G2PO'] > 2 * found['GRPO'] > 0
  assert found['turn GAE, lam 0'] > found['turn GAE, lam 1']


def _measured(made):
  return credit.measure(made, 12, 8, 0)
