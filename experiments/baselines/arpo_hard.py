"""ARPO: rollouts branch where a tool's answer made the policy uncertain.

Dong et al., "Agentic Reinforced Policy Optimization", arXiv:2507.19849, in its
hard form: what paths share gets the mean of their advantages.

  python -m experiments.results --baselines=arpo_hard

Reaches 0.913 (0.891 to 0.941) in 64 seconds a run.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2507.19849'
METHOD = {
  'name': 'trees.arpo_hard',
  'base': {'name': 'grpo.grpo', 'clip': 0.2, 'kl_coef': 0.01},
}
PUBLISHED: dict = {}
SETTINGS: dict = {'rollout.strategy': 'arpo.four'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
