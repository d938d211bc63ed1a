"""GRPO-MA: several answers to each thought, each compared with its like.

"GRPO-MA: Multi-Answer Generation in GRPO for Stable and Efficient
Chain-of-Thought Training", arXiv:2509.24494.

  python -m experiments.results --baselines=grpo_ma

Reaches 0.926 (0.889 to 0.963) in 47 seconds a run.

A thought is the first turn of an episode; two ends follow each.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2509.24494'
METHOD = {'name': 'trees.grpo_ma', 'low': 0.2, 'high': 0.2}
PUBLISHED: dict = {}
SETTINGS: dict = {'rollout.strategy': 'branching.two_answers'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
