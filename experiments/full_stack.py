"""The full stack of agentic surveys, in a world of experiments/worlds.py.

ARPO's rollouts, which branch where the environment surprises; GiGPO's credit by
the states that rollouts share; the ratio of a whole sequence, with bounds that
differ; and of all groups those whose rewards vary most, as StarPO-S has it.

  python -m launch.train --config=experiments/full_stack.py:model=DIR \
    --workdir=runs/full_stack

where DIR is the `final` folder of experiments/world_sft.py:env=keydoor.
`python -m experiments.studies.full_stack` compares it with GRPO at equal
tokens.

Arguments: env=NAME, one of experiments/worlds.py that tells its states;
model=DIR; quick (a minute's smoke run, learns nothing).
"""

from experiments import common, recipes, world


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg,
    env='keydoor',
    model='runs/worlds/keydoor/sft/final',
    quick=False,
  )
  config = world.get_config(
    f'env={chosen["env"]},model={chosen["model"]},method=surveyed'
    + ',quick' * chosen['quick']
  )
  config.update_from_flattened_dict(recipes.settings('surveyed'))
  return config
