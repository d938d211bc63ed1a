"""On-policy distillation: a teacher's log-prob of each token is the reward.

Lu et al., "On-Policy Distillation", Thinking Machines, 2025.

  python -m experiments.results --baselines=opd

Reaches 0.915 (0.885 to 0.947) in 55 seconds a run.

The teacher is what DAPO's baseline made of the same warm start; the
environment's rewards are not read.
"""

from experiments.baselines import budget

PAPER = 'Lu et al., 2025'
METHOD = {'name': 'distillation.opd', 'most': 10.0}
PUBLISHED: dict = {}
SETTINGS: dict = {'prompts.select': 'select.everything'}


def get_config(arg: str | None = None):
  return budget.taught(arg, METHOD, SETTINGS)
