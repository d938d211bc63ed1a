"""LPO: the group as a list, whose shares are drawn to a softmax of rewards.

"Listwise Policy Optimization: Group-based RLVR as Target-Projection on the LLM
Response Simplex", arXiv:2605.06139, in its forward form.

  python -m experiments.results --baselines=lpo

Reaches 0.916 (0.893 to 0.942) in 39 seconds a run.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2605.06139'
METHOD = {'name': 'regression.lpo', 'tau': 1.0}
PUBLISHED: dict = {}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
