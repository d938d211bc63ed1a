"""Dr. GRPO: no division by the group's deviation, none by a sequence's length.

Liu et al., "Understanding R1-Zero-Like Training: A Critical Perspective",
arXiv:2503.20783.

  python -m experiments.results --baselines=dr_grpo

Reaches 0.922 (0.898 to 0.954) in 82 seconds a run.

The sum over tokens is divided by 64, about what two episodes of the task take.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2503.20783'
METHOD = {'name': 'grpo.dr_grpo', 'clip': 0.2, 'length': 64}
PUBLISHED: dict = {'length': 3000}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
