"""VAPO: VC-PPO with a lambda that grows with length, and imitated successes.

Yue et al., "VAPO: Efficient and Reliable Reinforcement Learning for Advanced
Reasoning Tasks", arXiv:2504.05118.

  python -m experiments.results --baselines=vapo

Reaches 0.906 (0.878 to 0.939) in 30 seconds a run.

The lambda is 1 - 1 / (alpha * length), hence a larger alpha for short episodes;
the critic, untrained at first, shares the trunk, which its loss would spoil.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2504.05118'
METHOD = {
  'name': 'ppo.vapo',
  'alpha': 0.4,
  'low': 0.2,
  'high': 0.28,
  'value_coef': 0.05,
  'value_clip': 0.5,
  'positive_coef': 0.1,
}
PUBLISHED: dict = {'alpha': 0.05, 'value_coef': 0.5}
SETTINGS: dict = {'prompts.select': 'select.everything'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
