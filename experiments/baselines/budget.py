"""What every baseline runs on: the quickstart's task, and a small budget.

A file here is a claim. It names its publication, and has as data: METHOD, the
block of its method; PUBLISHED, the numbers that the publication has where
METHOD has others; SETTINGS, what it needs beside the loss, by config path. What
it reaches from the warm starts of experiments/quickstart_sft.py is claimed in
experiments/results/claims.json. This trains what is missing, compares it with
the claim, and fails where that does not hold:

  python -m experiments.results --baselines=grpo

and this is one of its runs:

  python -m launch.train --config=experiments/baselines/grpo.py:model=DIR \
    --workdir=runs/baselines/grpo

Arguments of all: model=DIR, the `final` folder of a warm start; quick (a
minute's smoke run, learns nothing, of a fresh model where none is given); of
those with a teacher: teacher=DIR.
"""

from experiments import common, quickstart

SAMPLES = 8  # of a task
EPISODES, TASKS = 128, 256  # of a batch; held out
SETTINGS = {
  'steps': 20,
  'prompts.batch': EPISODES // SAMPLES,
  'engine.slots': EPISODES,
  'eval.every': 1000,
  'eval.tasks': 1,
  'eval.final_tasks': TASKS,
  'checkpoint.every': 1000,
}
_START = 'runs/quickstart/sft/final'


def config(arg: str | None, method: dict, settings: dict):
  """The config of a baseline.

  Args:
    arg: the config's argument.
    method: its block.
    settings: what it needs beside the loss, by config path.
  """
  chosen = common.parse(arg, model=_START, quick=False)
  return _made(chosen, method, settings)


def taught(arg: str | None, method: dict, settings: dict):
  """As `config`, of a baseline with a teacher."""
  chosen = common.parse(arg, model=_START, teacher='', quick=False)
  made = _made(chosen, method, settings)
  teacher = 'start' if chosen['quick'] else 'runs/baselines/dapo/final'
  made.model.teacher = chosen['teacher'] or teacher
  return made


def _made(chosen, method, settings):
  quick = ',quick' if chosen['quick'] else ''
  made = quickstart.get_config(f'model={chosen["model"]}{quick}')
  made.method = method
  if not chosen['quick']:
    made.update_from_flattened_dict(SETTINGS)
  made.update_from_flattened_dict(settings)
  return made
