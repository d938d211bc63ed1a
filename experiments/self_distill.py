"""The quickstart's task, learnt from oneself with more in the context.

What the policy did is scored by the policy itself, told the answer or the steps
to it before the prompt: the policy of now, or weights of it that move less.

  python -m launch.train --config=experiments/self_distill.py:model=DIR \
    --workdir=runs/self_distill/steps

where DIR is the `final` folder of experiments/self_distill_sft.py, which can
read such hints. What it does to looking things up before answering:
`python -m experiments.studies.distillation`.

Arguments: model=DIR; told=answer, steps or success (what the best rollout of
the task did); method=NAME, privileged, guarded or seed (rewards, too);
teacher=live, base (the weights that the run starts from) or average (of the
policy's own over batches); quick (a minute's smoke run, learns nothing).
"""

from experiments import common, quickstart

TOLD = ('answer', 'steps', 'success')
# Who is told more: the policy of now, what it started from, or its average.
TEACHERS = ('live', 'base', 'average')
METHODS = {
  'privileged': {'name': 'distillation.privileged', 'high': 1.0},
  'guarded': {
    'name': 'distillation.guarded',
    'base': {'name': 'distillation.privileged', 'high': 1.0},
  },
  'seed': {
    'name': 'distillation.seed',
    'base': {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28},
    'coef': 0.01,
    'sharpness': 5.0,
  },
}
CHECKS = 'get(|calc('  # to look up or work out, and not to guess


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg,
    model='runs/self_distill/sft/final',
    told='steps',
    method='privileged',
    teacher='live',
    quick=False,
  )
  all_known = (('told', TOLD), ('method', METHODS), ('teacher', TEACHERS))
  for name, known in all_known:
    common.one_of(name, chosen[name], known)
  quick = ',quick' if chosen['quick'] else ''
  config = quickstart.get_config(f'model={chosen["model"]}{quick}')
  config.method = METHODS[chosen['method']]
  config.rollout.update(
    strategy=f'privileged.told_{chosen["told"]}', context=192
  )
  if chosen['method'] == 'guarded':
    config.rollout.reconsidering = CHECKS
  config.prompts.select = 'select.everything'
  if chosen['teacher'] == 'base':
    config.model.teacher = 'start'
  if chosen['teacher'] == 'average':
    config.model.average = 0.05
  return config
