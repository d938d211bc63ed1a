"""ReMax: REINFORCE over the reward of the greedy rollout.

Li et al., "ReMax: A Simple, Effective, and Efficient Reinforcement Learning
Method for Aligning Large Language Models", arXiv:2310.10505.

  python -m experiments.results --baselines=remax

Reaches 0.917 (0.891 to 0.947) in 100 seconds a run.

One update a batch, as all without a ratio; the KL in the reward is left out.
The greedy rollouts come on top of the 128 episodes of a batch, and their tokens
are not counted.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2310.10505'
METHOD = {'name': 'reinforce.remax'}
PUBLISHED: dict = {}
SETTINGS: dict = {
  'prompts.select': 'select.everything',
  'rollout.strategy': 'greedy.with_baseline',
  'updates.per_batch': 1,
}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
