"""The quickstart: a 0.3M-parameter agent learns to use tools by RL.

Look-ups through up to two pointers and a calculator, several turns, a binary
reward for the right answer, from a warm start that mostly guesses.

  python -m launch.train --config=experiments/quickstart.py:model=DIR \
    --workdir=runs/quickstart/dapo

where DIR is the `final` folder of experiments/quickstart_sft.py. RESULTS.md has
what each method reaches; `python -m experiments.studies.quickstart` remakes it.

Arguments: model=DIR; method=NAME, one of experiments/recipes.py; quick (a
minute's smoke run, learns nothing, of a fresh model where none is given).
"""

from experiments import common, recipes


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg, model='runs/quickstart/sft/final', method='dapo', quick=False
  )
  method = common.one_of('method', chosen['method'], recipes.METHODS)
  config = common.base()
  config.eval.tasks = 128
  common.start_from(config, chosen['model'])
  config.method = recipes.METHODS[method]
  config.env = {
    'name': 'tools.make',
    'max_hops': 2,
    'guess': 0.55,
    'fault': 0.05,
  }
  config.update_from_flattened_dict(recipes.settings(method))
  if chosen['quick']:
    config.steps = 3
    config.engine.slots = 16
    config.prompts.update(batch=4, samples=4)
    config.updates.microbatch = 4
    config.eval.update(every=2, tasks=16, final_tasks=16)
  return config
