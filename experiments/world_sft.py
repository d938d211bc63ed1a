"""The warm start of a world: imitating a demonstrator who often fails.

  python -m launch.sft --config=experiments/world_sft.py:env=frozen_lake \
    --workdir=runs/worlds/frozen_lake/sft

Arguments: env=NAME, one of experiments/worlds.py; quick (a minute's smoke run,
learns nothing).
"""

from experiments import common, quickstart_sft, worlds


def get_config(arg: str | None = None):
  chosen = common.parse(arg, env='tools', quick=False)
  config = quickstart_sft.get_config()
  world = worlds.set_up(config, chosen['env'])
  config.prompts.size = world.get('tasks', config.prompts.size)
  config.steps = config.optimizer.decay = world['imitated']
  config.eval.every = config.checkpoint.every = world['imitated']
  if chosen['quick']:
    worlds.quicken(config)
  return config
