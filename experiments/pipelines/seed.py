"""SEED: a policy writes down what an episode taught it, and is taught by that.

  python -m launch.pipeline --config=experiments/pipelines/seed.py \
    --workdir=runs/pipelines/seed

arXiv:2607.14777. The first stage imitates a demonstrator, half of the time on
the task itself and else in writing a skill about one of his episodes, or in
acting behind such a skill. Then, beside DAPO, what the policy did is scored
once more behind the skill that it wrote about it itself, and it is drawn to
what that makes likelier. Ours: a skill is a line where theirs is JSON, and its
scope is an episode alone, where theirs may be a step.

Arguments: seed=N; quick (a smoke run, learns nothing).
"""

from experiments.pipelines import parts

CONTEXT = 192  # holds an episode behind a skill, and as it is shown
WRITING = {'name': 'skills.make', 'env': parts.TOOLS, 'max_turns': 5}
SKILLED = {'name': 'hinted.make', 'env': parts.TOOLS, 'hint': 'skill'}


def get_config(arg: str | None = None):
  chosen = parts.parse(arg)
  start = parts.demonstrated(chosen, 1200)
  start['config'].env = {
    'name': 'mixture.make',
    'parts': {'acting': parts.TOOLS, 'writing': WRITING, 'skilled': SKILLED},
    'weights': {'acting': 2.0, 'writing': 1.0, 'skilled': 1.0},
  }
  seed = parts.trained(chosen, 20, '{start}/final')
  seed['config'].method = {
    'name': 'distillation.seed',
    'base': dict(seed['config'].method),
    'coef': 0.01,
    'sharpness': 5.0,
  }
  seed['config'].rollout.strategy = 'privileged.told_skill'
  for stage in (start, seed):
    stage['config'].rollout.context = CONTEXT
  return parts.pipeline('SEED', start=start, seed=seed)
