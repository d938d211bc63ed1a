"""The warm start of the quickstart: imitating a demonstrator that guesses.

A fresh 0.3M-parameter character model learns the tool syntax from noisy
demonstrations of `arl.envs.tools`, whose most frequent behavior is wrong.

  python -m launch.sft --config=experiments/quickstart_sft.py \
    --workdir=runs/quickstart/sft

Arguments: quick (a minute's smoke run, learns nothing).
"""

from experiments import common


def get_config(arg: str | None = None):
  chosen = common.parse(arg, quick=False)
  config = common.base()
  config.steps = 900
  config.model.size = 'quick'
  config.method = {'name': 'terms.imitation'}
  config.env = {
    'name': 'tools.make',
    'max_hops': 2,
    'guess': 0.55,
    'fault': 0.05,
  }
  config.rollout.strategy = 'demonstrations.noisy'
  config.prompts.update(
    size=100_000, batch=56, samples=1, select='select.everything'
  )
  config.updates.update(per_batch=1, microbatch=8)
  config.optimizer.update(
    lr=3e-3, warmup=20, decay=900, b2=0.99, max_norm=1.0, weight_decay=0.01
  )
  config.eval.update(every=450, tasks=128, final_tasks=512)
  config.checkpoint.every = 450
  if chosen['quick']:
    config.steps = 4
    config.engine.slots = 16
    config.eval.update(every=2, tasks=16, final_tasks=16)
  return config
