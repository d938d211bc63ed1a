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
  config = quickstart.get_config(
    f'model={chosen["model"]},method={chosen["method"]}'
  )
  config.steps = worlds.set_up(config, chosen['env'])['steps']
  config.rollout.strategy = config.eval.strategy
  if chosen['quick']:
    worlds.quicken(config)
    config.prompts.update(batch=4, samples=4)
    config.updates.microbatch = 4
  return config
