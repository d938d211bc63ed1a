"""ORPO, online: the best rollout is imitated, with an odds ratio to the worst.

Hong et al., "ORPO: Monolithic Preference Optimization without Reference Model",
arXiv:2403.07691; on pairs as those of DPO here.

  python -m experiments.results --baselines=orpo

Reaches 0.962 (0.919 to 0.992) in 39 seconds a run.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2403.07691'
METHOD = {'name': 'preference.orpo', 'coef': 0.1}
PUBLISHED: dict = {}
SETTINGS: dict = {'prompts.select': 'pairs.best_against_worst'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
