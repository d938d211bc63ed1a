"""RLOO: REINFORCE over the mean of the prompt's other rollouts.

Ahmadian et al., "Back to Basics: Revisiting REINFORCE Style Optimization for
Learning from Human Feedback in LLMs", arXiv:2402.14740.

  python -m experiments.results --baselines=rloo

Reaches 0.921 (0.895 to 0.951) in 82 seconds a run.

Without a ratio only the first update of a batch is on policy, so a batch has
one. The publication's KL in the reward is left out.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2402.14740'
METHOD = {'name': 'reinforce.rloo'}
PUBLISHED: dict = {}
SETTINGS: dict = {'updates.per_batch': 1}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
