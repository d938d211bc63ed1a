"""GKD: the policy is drawn to a teacher's distribution on its own rollouts.

Agarwal et al., "On-Policy Distillation of Language Models: Learning from
Self-Generated Mistakes", arXiv:2306.13649.

  python -m experiments.results --baselines=gkd

Reaches 0.918 (0.889 to 0.956) in 65 seconds a run.

The teacher is that of on-policy distillation here; all sequences are the
student's own.
"""

from experiments.baselines import budget

PAPER = 'arXiv:2306.13649'
METHOD = {'name': 'matching.gkd', 'beta': 0.5, 'k': 64}
PUBLISHED: dict = {}
SETTINGS: dict = {'prompts.select': 'select.everything'}


def get_config(arg: str | None = None):
  return budget.taught(arg, METHOD, SETTINGS)
