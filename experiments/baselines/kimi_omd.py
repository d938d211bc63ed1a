"""Kimi k1.5: the squared error of a sequence's log-ratio to its advantage.

Kimi Team, "Kimi k1.5: Scaling Reinforcement Learning with LLMs",
arXiv:2501.12599, eq. 3.

  python -m experiments.results --baselines=kimi_omd

Reaches 0.924 (0.888 to 0.966) in 43 seconds a run.

tau is not published. The optimizer is not reset, and there is no length reward.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2501.12599'
METHOD = {'name': 'regression.kimi_omd', 'tau': 0.5}
PUBLISHED: dict = {}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
