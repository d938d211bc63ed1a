"""The warm start of a world: imitating a demonstrator who often fails.

  python -m launch.sft --config=experiments/world_sft.py:env=frozen_lake \
    --workdir=runs/worlds/frozen_lake/sft

Arguments: env=NAME, one of experiments/worlds.py; quick (a minute's smoke run,
learns nothing).
"""

from experiments import common, quickstart_sft, worlds


def get_config(arg: str | None = None):
  chosen = common.parse(arg, env='tools', quick=False)
  config = quickstart_sft.get_config('quick' if chosen['quick'] else None)
  world = worlds.of(chosen['env'])
  worlds.set_up(config, world)
  if not chosen['quick']:
    config.steps = config.optimizer.decay = world.imitated
    config.eval.every = config.checkpoint.every = world.imitated
  return config
