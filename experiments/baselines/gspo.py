"""GSPO: one length-normalized ratio and one clip a sequence.

Zheng et al., "Group Sequence Policy Optimization", arXiv:2507.18071.

  python -m experiments.results --baselines=gspo

Reaches 0.926 (0.904 to 0.954) in 41 seconds a run.

The bounds are ten times as wide: the mean log-ratio of a short sequence is
larger.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2507.18071'
METHOD = {'name': 'sequence.gspo', 'low': 0.003, 'high': 0.004}
PUBLISHED: dict = {'low': 3e-4, 'high': 4e-4}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
