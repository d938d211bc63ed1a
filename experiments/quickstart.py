"""The quickstart: a 0.3M-parameter agent learns to use tools by GRPO.

Look-ups through up to two pointers and a calculator, several turns, binary
reward, from a warm start that mostly guesses.

  python -m launch.train --config=experiments/quickstart.py:model=DIR \
    --workdir=runs/quickstart/grpo

where DIR is the `final` folder of experiments/quickstart_sft.py.

Arguments: model=DIR; quick (a minute's smoke run, learns nothing).
"""

from experiments import common


def get_config(arg: str | None = None):
  chosen = common.parse(arg, model='runs/quickstart/sft/final', quick=False)
  config = common.base()
  config.model.path = chosen['model']
  config.env = {
    'name': 'tools.make',
    'max_hops': 2,
    'guess': 0.55,
    'fault': 0.05,
  }
  if chosen['quick']:
    config.steps = 3
    config.engine.slots = 16
    config.prompts.update(batch=4, samples=4)
    config.updates.microbatch = 4
    config.eval.update(every=2, tasks=16, final_tasks=16)
  return config
