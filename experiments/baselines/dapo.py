"""DAPO's loss: clip-higher, every token of the batch weighs the same, no KL.

Yu et al., "DAPO: An Open-Source LLM Reinforcement Learning System at Scale",
arXiv:2503.14476.

  python -m experiments.results --baselines=dapo

Reaches 0.910 (0.883 to 0.968) in 85 seconds a run.

Groups that are all right or all wrong are left out and not sampled again, and
no episode is long enough for overlong shaping.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2503.14476'
METHOD = {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28}
PUBLISHED: dict = {}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
