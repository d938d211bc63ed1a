"""ESTR: a token counts while its ratio is small against the sampler's entropy.

"Deconstructing Off-Policy Ratios: Entropy-Scaled Trust Regions for Asynchronous
Reinforcement Learning", arXiv:2607.22186.

  python -m experiments.results --baselines=estr

Reaches 0.910 (0.881 to 0.949) in 82 seconds a run.

Rollouts are four updates old. tau is not published.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2607.22186'
METHOD = {
  'name': 'offpolicy.estr',
  'base': {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28},
  'tau': 1.0,
  'eps': 0.01,
}
PUBLISHED: dict = {}
SETTINGS: dict = {'rollout.lag': 2}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
