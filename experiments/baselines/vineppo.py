"""VinePPO: a state is worth what fresh rollouts from it earn; no critic.

Kazemnejad et al., "VinePPO: Unlocking RL Potential For LLM Reasoning Through
Refined Credit Assignment", arXiv:2410.01679.

  python -m experiments.results --baselines=vineppo

Reaches 0.942 (0.915 to 0.969) in 88 seconds a run.

Three rollouts from each turn, where the publication has nine from each step;
they come on top of the 128 episodes of a batch, and their tokens count.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2410.01679'
METHOD = {'name': 'critics.vineppo', 'clip': 0.2, 'kl_coef': 0.0001}
PUBLISHED: dict = {}
SETTINGS: dict = {
  'prompts.select': 'select.everything',
  'rollout.strategy': 'vine.three',
}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
