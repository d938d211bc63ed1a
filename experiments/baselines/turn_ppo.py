"""Turn-PPO: a turn is one action; GAE, ratio, clip and critic are of turns.

"Turn-PPO: Turn-Level Advantage Estimation with PPO for Improved Multi-Turn RL
in Agentic LLMs", arXiv:2512.17008.

  python -m experiments.results --baselines=turn_ppo

Reaches 0.919 (0.886 to 0.966) in 46 seconds a run.

Details of the publication are from summaries.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2512.17008'
METHOD = {
  'name': 'agentic.turn_ppo',
  'gamma': 0.99,
  'lam': 0.9,
  'clip': 0.2,
  'value_coef': 0.5,
}
PUBLISHED: dict = {}
SETTINGS: dict = {'prompts.select': 'select.everything'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
