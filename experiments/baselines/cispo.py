"""CISPO: a truncated, detached importance weight; no token loses its gradient.

MiniMax, "MiniMax-M1: Scaling Test-Time Compute Efficiently with Lightning
Attention", arXiv:2506.13585.

  python -m experiments.results --baselines=cispo

Reaches 0.906 (0.861 to 0.962) in 100 seconds a run.

The publication gives no upper bound; 5 is that of ScaleRL (arXiv:2510.13786).
"""

from experiments.baselines import budget

PAPER = 'arXiv:2506.13585'
METHOD = {'name': 'grpo.cispo', 'high': 4.0, 'low': 1.0}
PUBLISHED: dict = {}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
