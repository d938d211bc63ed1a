"""SignBalance: right answers get one number, wrong ones what balances them.

"Spurious Advantage Hidden in GRPO", arXiv:2609.04063.

  python -m experiments.results --baselines=signbalance

Reaches 0.923 (0.871 to 0.963) in 41 seconds a run.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2609.04063'
METHOD = {
  'name': 'exploration.signbalance',
  'base': {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28},
  'scale': 1.0,
}
PUBLISHED: dict = {}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
