"""Lite PPO: the group's mean, the batch's deviation, a mean over tokens.

Liu et al., "Part I: Tricks or Traps? A Deep Dive into RL for LLM Reasoning",
arXiv:2508.08221.

  python -m experiments.results --baselines=liteppo

Reaches 0.919 (0.889 to 0.959) in 70 seconds a run.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2508.08221'
METHOD = {'name': 'grpo.liteppo', 'clip': 0.2}
PUBLISHED: dict = {}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
