"""TIS: DAPO's loss times the ratio of trainer to sampler, truncated, a token.

F. Yao et al., "Your Efficient RL Framework Secretly Brings You Off-Policy RL
Training", a report of 2025.

  python -m experiments.results --baselines=tis

Reaches 0.910 (0.880 to 0.930) in 24 seconds a run.

Rollouts are four updates old, since what it corrects is 1 on fresh ones. What
DAPO alone reaches on such is in experiments/results/offpolicy.md.
"""

from experiments.baselines import budget

PAPER = 'Yao et al., 2025'
METHOD = {
  'name': 'offpolicy.tis',
  'base': {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28},
  'low': 0.0,
  'high': 2.0,
}
PUBLISHED: dict = {}
SETTINGS: dict = {'rollout.lag': 2}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
