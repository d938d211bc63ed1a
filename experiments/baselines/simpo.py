"""SimPO, online: mean log-probs have to differ by a margin; no reference.

Meng et al., "SimPO: Simple Preference Optimization with a Reference-Free
Reward", arXiv:2405.14734; on pairs as those of DPO here.

  python -m experiments.results --baselines=simpo

Reaches 0.905 (0.852 to 0.951) in 34 seconds a run.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2405.14734'
METHOD = {'name': 'preference.simpo', 'beta': 2.0, 'gamma': 1.0}
PUBLISHED: dict = {}
SETTINGS: dict = {'prompts.select': 'pairs.best_against_worst'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
