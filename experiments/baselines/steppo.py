"""StepPO: GSPO's ratio, a turn in place of a sequence, and a critic of turns.

"StepPO: Step-Aligned Policy Optimization for Agentic Reinforcement Learning",
arXiv:2604.18401.

  python -m experiments.results --baselines=steppo

Reaches 0.905 (0.854 to 0.947) in 71 seconds a run.

The bounds are ten times as wide, as those of GSPO here.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2604.18401'
METHOD = {
  'name': 'agentic.steppo',
  'gamma': 1.0,
  'lam': 1.0,
  'low': 0.003,
  'high': 0.004,
  'kl_coef': 0.001,
  'value_coef': 0.5,
}
PUBLISHED: dict = {'low': 3e-4, 'high': 4e-4}
SETTINGS: dict = {'prompts.select': 'select.everything'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
