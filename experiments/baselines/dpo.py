"""DPO, online: the best rollout of a prompt is preferred to the worst.

Rafailov et al., "Direct Preference Optimization: Your Language Model is
Secretly a Reward Model", arXiv:2305.18290; on rollouts of the policy itself Guo
et al., arXiv:2402.04792.

  python -m experiments.results --baselines=dpo

Reaches 0.912 (0.883 to 0.956) in 43 seconds a run.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2305.18290'
METHOD = {'name': 'preference.dpo', 'beta': 0.1}
PUBLISHED: dict = {}
SETTINGS: dict = {'prompts.select': 'pairs.best_against_worst'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
