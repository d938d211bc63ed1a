"""Self-rewarding: a policy is its own judge, three times over.

  python -m launch.pipeline --config=experiments/pipelines/self_rewarding.py \
    --workdir=runs/pipelines/self_rewarding

Yuan et al., arXiv:2401.10020. The start has imitated a demonstrator and learnt
to judge one, half and half. In each iteration it plays four episodes a task and
judges each three times, and DPO draws it to the best of a task from the worst,
the reference being where the iteration began: one batch, all of which is
sampled and judged before the first update. No reward of the environment is
learnt from; `environment/success` and `environment/correlation` say what became
of it, `policy/preferred_tokens` and `policy/other_tokens` whether length is
rewarded. Ours: the rubric is a digit for right or wrong, each iteration plays
the same tasks where theirs has new ones, and sampling is at temperature 1,
where theirs is at 0.7 with top-p 0.9.

Arguments: seed=N; quick (a smoke run, learns nothing).
"""

from experiments.pipelines import parts

ITERATIONS = 3
CONTEXT = 192  # holds an episode as it is shown to a judge
JUDGING = {
  'name': 'judging.make',
  'env': parts.TOOLS,
  'form': 'judgements.short',
  'max_turns': 5,
}


def get_config(arg: str | None = None):
  chosen = parts.parse(arg)
  start = parts.demonstrated(chosen, 900)
  start['config'].env = {
    'name': 'mixture.make',
    'parts': {'acting': parts.TOOLS, 'judging': JUDGING},
  }
  start['config'].rollout.context = CONTEXT
  stages, before = {'start': start}, 'start'
  for i in range(1, ITERATIONS + 1):
    stages[f'iteration_{i}'] = _iteration(chosen, before)
    before = f'iteration_{i}'
  return parts.pipeline('Self-rewarding', **stages)


def _iteration(chosen: dict, before: str) -> dict:
  """What was judged by the last model, learnt by it."""
  made = parts.trained(chosen, 1, f'{{{before}}}/final')
  config = made['config']
  config.method = {'name': 'preference.dpo', 'beta': 0.1}
  config.prompts.select = 'pairs.best_against_worst'
  config.rollout.strategy = 'self_rewarding.short'
  config.rollout.context = CONTEXT
  config.optimizer.lr = 1e-4
  config.prompts.samples = 4
  if chosen['quick']:  # a model that has learnt nothing judges nothing
    config.rollout.strategy = 'demonstrations.noisy'
  else:
    config.prompts.batch, config.updates.per_batch = 512, 16
  return made
