"""A world of experiments/worlds.py, learnt by RL from its warm start.

  python -m launch.train \
    --config=experiments/world.py:env=frozen_lake,model=DIR \
    --workdir=runs/worlds/frozen_lake/dapo

where DIR is the `final` folder of experiments/world_sft.py.
`python -m experiments.studies.worlds` remakes what each of them reaches.

Arguments: env=NAME; model=DIR; method=NAME, one of experiments/recipes.py;
quick (a minute's smoke run, learns nothing).
"""

from experiments import common, quickstart, worlds


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg,
    env='tools',
    model='runs/quickstart/sft/final',
    method='dapo',
    quick=False,
  )
  parts = [f'model={chosen["model"]}', f'method={chosen["method"]}']
  config = quickstart.get_config(','.join(parts + ['quick'] * chosen['quick']))
  world = worlds.of(chosen['env'])
  worlds.set_up(config, world)
  if not chosen['quick']:
    config.steps = world.steps
  return config
