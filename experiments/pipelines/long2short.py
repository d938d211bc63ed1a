"""Long2Short: the same success in fewer tokens.

  python -m launch.pipeline --config=experiments/pipelines/long2short.py \
    --workdir=runs/pipelines/long2short

Kimi k1.5, arXiv:2501.12599, 3.4. From a model that reinforcement learning made
longwinded: its average with the one it came from, imitation of the shortest
right answer of eight, and DPO against answers that are wrong and longer or half
as long again. The length penalty in the reward is `shaping.shortest`. Sampling
stages say how many tokens an episode has.

Arguments: seed=N; quick (a smoke run, learns nothing).
"""

from experiments.pipelines import parts


def get_config(arg: str | None = None):
  chosen = parts.parse(arg)
  dpo = parts.trained(chosen, 10, '{long}/final')
  config = dpo['config']
  config.method = {'name': 'preference.dpo', 'beta': 0.1}
  config.prompts.select = 'long2short.pairs'
  config.optimizer.lr = 1e-4
  config.updates.per_batch = 1
  return parts.pipeline(
    'Long2Short',
    start=parts.demonstrated(chosen, 600),
    long=parts.trained(chosen, 30, '{start}/final'),
    merged=parts.averaged(chosen, '{long}/final', '{start}/final'),
    shortest=parts.sampled(chosen, 6, '{long}/final', 'long2short.shortest'),
    imitated=parts.imitated(chosen, 100, '{long}/final', 'shortest'),
    imitated_said=_said(chosen, 'imitated'),
    preferred=dpo,
    preferred_said=_said(chosen, 'preferred'),
  )


def _said(chosen, model):
  """What a model says: to measure it."""
  return parts.sampled(chosen, 2, f'{{{model}}}/final', 'select.everything')
