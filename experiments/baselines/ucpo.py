"""UCPO: among right answers the less likely ones gain.

"Uniform-Correct Policy Optimization: Breaking RLVR's Indifference to
Diversity", arXiv:2605.00365.

  python -m experiments.results --baselines=ucpo

Reaches 0.913 (0.886 to 0.959) in 81 seconds a run.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2605.00365'
METHOD = {
  'name': 'exploration.ucpo',
  'base': {'name': 'grpo.grpo', 'clip': 0.2, 'kl_coef': 0.01},
  'tau': 0.2,
}
PUBLISHED: dict = {}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
