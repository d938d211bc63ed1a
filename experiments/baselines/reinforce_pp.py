"""REINFORCE++: PPO without a critic; returns whitened over the whole batch.

Hu et al., "REINFORCE++: Stabilizing Critic-Free Policy Optimization with Global
Advantage Normalization", arXiv:2501.03262.

  python -m experiments.results --baselines=reinforce_pp

Reaches 0.917 (0.893 to 0.959) in 94 seconds a run.

Its baseline is no group's, so that it learns from every group.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2501.03262'
METHOD = {'name': 'reinforce.reinforce_pp', 'clip': 0.2, 'kl_coef': 0.01}
PUBLISHED: dict = {}
SETTINGS: dict = {'prompts.select': 'select.everything'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
