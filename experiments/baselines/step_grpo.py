"""StepGRPO: GRPO on a reward that has a part for the steps that were right.

Zhang et al., "R1-VL: Learning to Reason with Multimodal Large Language Models
via Step-wise Group Relative Policy Optimization", arXiv:2503.12937.

  python -m experiments.results --baselines=step_grpo

Reaches 0.920 (0.900 to 0.942) in 52 seconds a run.

The environment scores the steps: it knows which calls a question takes. The KL
weighs as that of GRPO here.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2503.12937'
METHOD = {'name': 'agentic.step_grpo', 'clip': 0.2, 'kl_coef': 0.01}
PUBLISHED: dict = {'kl_coef': 0.04}
SETTINGS: dict = {}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
