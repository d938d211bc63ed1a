"""OPO: the baseline of least variance, the mean reward weighted by length.

Hao et al., "On-Policy RL with Optimal Reward Baseline", arXiv:2505.23585.

  python -m experiments.results --baselines=opo

Reaches 0.904 (0.878 to 0.955) in 76 seconds a run.

One update a batch, as all without a ratio.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2505.23585'
METHOD = {'name': 'reinforce.opo'}
PUBLISHED: dict = {}
SETTINGS: dict = {'updates.per_batch': 1}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
