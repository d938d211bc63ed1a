"""PPO for language models: a critic, GAE over the policy's own tokens, a clip.

Schulman et al., "Proximal Policy Optimization Algorithms", arXiv:1707.06347;
its KL in the reward is that of Ouyang et al., arXiv:2203.02155.

  python -m experiments.results --baselines=ppo

Reaches 0.889 (0.863 to 0.912) in 113 seconds a run.

The critic begins untrained and shares the policy's trunk, so that the policy
rests on whole returns, and the KL weighs less.
"""

from experiments.baselines import budget

PAPER = 'arXiv:1707.06347'
METHOD = {
  'name': 'ppo.ppo',
  'gamma': 1.0,
  'lam': 1.0,
  'clip': 0.2,
  'kl_coef': 0.01,
  'value_coef': 0.5,
  'value_clip': 0.2,
  'entropy_coef': 0.0,
}
PUBLISHED: dict = {'lam': 0.95, 'kl_coef': 0.05}
SETTINGS: dict = {'prompts.select': 'select.everything'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
