"""IcePop: tokens whose ratio of trainer to sampler leaves a band do not count.

Ling Team, "Every Step Evolves: Scaling Reinforcement Learning for
Trillion-Scale Thinking Model", arXiv:2510.18855.

  python -m experiments.results --baselines=icepop

Reaches 0.902 (0.874 to 0.948) in 44 seconds a run.

Rollouts are four updates old, since what it masks is nothing on fresh ones.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2510.18855'
METHOD = {
  'name': 'offpolicy.icepop',
  'base': {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28},
  'low': 0.5,
  'high': 5.0,
}
PUBLISHED: dict = {}
SETTINGS: dict = {'rollout.lag': 2}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
