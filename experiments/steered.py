"""The quickstart with rollouts that are steered, or hotter and colder ones.

  python -m launch.train \
    --config=experiments/steered.py:strategy=t2po.turns,model=DIR \
    --workdir=runs/steered

where DIR is the `final` folder of experiments/quickstart_sft.py. BUILD.md says
what the strategies do; `python -m experiments.studies.steering` measures them.

Arguments: strategy=NAME, a rollout.strategy; temperature=NAME, one of HEAT or
'' for one that stays; model=DIR; method=NAME, one of experiments/recipes.py;
quick (a minute's smoke run, learns nothing).
"""

from experiments import common, quickstart

HEAT = {
  'cosine': {'name': 'knobs.cosine', 'init': 1.2, 'last': 0.7, 'batches': 40},
  'entropy': {'name': 'knobs.toward_entropy', 'target': 0.3},
}
_EPS = {'name': 'knobs.linear', 'init': 0.05, 'last': 0.01, 'batches': 40}
_FLOOR = {'name': 'knobs.average', 'metric': 'rollout/entropy_low'}
READS = {
  'early_stop.two': {'entropy_floor': _FLOOR},
  'early_stop.four': {'entropy_floor': _FLOOR},
  'forced_tools.masked': {'tool_eps': _EPS},
  'forced_tools.mixed': {'tool_eps': _EPS},
}


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg,
    strategy='t2po.turns',
    temperature='',
    model='runs/quickstart/sft/final',
    method='dapo',
    quick=False,
  )
  heat = chosen['temperature']
  if heat:
    common.one_of('temperature', heat, HEAT)
  config = quickstart.get_config(
    f'model={chosen["model"]},method={chosen["method"]}'
    + ',quick' * chosen['quick']
  )
  config.rollout.strategy = chosen['strategy']
  config.knobs = dict(READS.get(chosen['strategy'], {}))
  if heat:
    config.knobs.temperature = HEAT[heat]
  return config
