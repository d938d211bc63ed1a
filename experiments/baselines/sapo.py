"""SAPO: a sigmoid of the ratio in place of the clip, sharper for bad actions.

Gao et al., "Soft Adaptive Policy Optimization", arXiv:2511.20347.

  python -m experiments.results --baselines=sapo

Reaches 0.916 (0.885 to 0.962) in 197 seconds a run.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2511.20347'
METHOD = {'name': 'soft.sapo', 'tau_positive': 1.0, 'tau_negative': 1.05}
PUBLISHED: dict = {}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
