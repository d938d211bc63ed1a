"""GRPO: rewards normalized within the group, PPO's clip, a KL in the loss.

Shao et al., "DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open
Language Models", arXiv:2402.03300, 4.1.

  python -m experiments.results --baselines=grpo

Reaches 0.917 (0.886 to 0.953) in 102 seconds a run.

The KL weighs less: forty updates leave a small model near its reference. All
others are compared with this one.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2402.03300'
METHOD = {'name': 'grpo.grpo', 'clip': 0.2, 'kl_coef': 0.01}
PUBLISHED: dict = {'kl_coef': 0.04}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
