"""VC-PPO: the critic learns whole returns, the policy from a lambda below 1.

Yuan et al., "What's Behind PPO's Collapse in Long-CoT? Value Optimization Holds
the Secret", arXiv:2503.01491.

  python -m experiments.results --baselines=vc_ppo

Reaches 0.864 (0.828 to 0.891) in 387 seconds a run.

Its critic begins untrained here; pretraining it is a run of
experiments/critics.py.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2503.01491'
METHOD = {
  'name': 'ppo.vc_ppo',
  'lam': 0.95,
  'low': 0.2,
  'high': 0.2,
  'value_coef': 0.5,
  'value_clip': 0.5,
}
PUBLISHED: dict = {}
SETTINGS: dict = {'prompts.select': 'select.everything'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
