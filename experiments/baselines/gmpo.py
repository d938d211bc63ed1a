"""GMPO: the geometric mean of a sequence's ratios, each clipped before.

Zhao et al., "Geometric-Mean Policy Optimization", arXiv:2507.20673.

  python -m experiments.results --baselines=gmpo

Reaches 0.920 (0.893 to 0.951) in 280 seconds a run.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2507.20673'
METHOD = {'name': 'sequence.gmpo', 'low': 0.4, 'high': 0.4}
PUBLISHED: dict = {}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
