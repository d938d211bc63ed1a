"""RRPO: failures are gone back into at a random turn, and their ends compared.

"Credit Assignment with Resets in Language Model Reasoning", arXiv:2605.25507.

  python -m experiments.results --baselines=rrpo

Reaches 0.921 (0.898 to 0.957) in 98 seconds a run.

Details of the publication are from notes. Rollouts that begin in a failure are
part of its batches, which succeed less often than its policy from the prompt.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2605.25507'
METHOD = {
  'name': 'resets.rrpo',
  'base': {'name': 'grpo.grpo', 'clip': 0.2, 'kl_coef': 0.01},
}
PUBLISHED: dict = {}
SETTINGS: dict = {'rollout.strategy': 'resets.rrpo'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
