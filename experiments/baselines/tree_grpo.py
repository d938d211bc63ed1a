"""Tree-GRPO: rollouts branch at turns; leaves are compared in and across trees.

Ji et al., "Tree Search for LLM Agent Reinforcement Learning",
arXiv:2509.21240.

  python -m experiments.results --baselines=tree_grpo

Reaches 0.911 (0.869 to 0.943) in 45 seconds a run.

Two trees of four leaves a prompt. What leaves share is sampled once.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2509.21240'
METHOD = {'name': 'trees.tree_grpo', 'clip': 0.2, 'kl_coef': 0.001}
PUBLISHED: dict = {}
SETTINGS: dict = {'rollout.strategy': 'branching.two_trees'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
