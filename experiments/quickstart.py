"""The quickstart: a 0.3M-parameter agent learns to use tools by RL.

Look-ups through up to two pointers and a calculator, several turns, a binary
reward for the right answer, from a warm start that mostly guesses.

  python -m launch.train --config=experiments/quickstart.py:model=DIR \
    --workdir=runs/quickstart/dapo

where DIR is the `final` folder of experiments/quickstart_sft.py. RESULTS.md has
what each method reaches; `python -m experiments.studies.methods` remakes it.

Arguments: model=DIR; method=NAME, one of METHODS; quick (a minute's smoke run,
learns nothing).
"""

from experiments import common

METHODS = {
  'dapo': {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28},
  'grpo': {'name': 'grpo.grpo', 'clip': 0.2, 'kl_coef': 0.01},
  'dr_grpo': {'name': 'grpo.dr_grpo', 'clip': 0.2, 'length': 64},
  'gspo': {'name': 'sequence.gspo', 'low': 0.003, 'high': 0.004},
  'cispo': {'name': 'grpo.cispo', 'low': 1.0, 'high': 4.0},
  'rloo': {'name': 'reinforce.rloo'},
  'ppo': {
    'name': 'ppo.ppo',
    'gamma': 1.0,
    'lam': 1.0,
    'clip': 0.2,
    'kl_coef': 0.01,
    'value_coef': 0.5,
    'value_clip': 0.2,
    'entropy_coef': 0.0,
  },
}


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg, model='runs/quickstart/sft/final', method='dapo', quick=False
  )
  if chosen['method'] not in METHODS:
    raise ValueError(
      f'config argument method={chosen["method"]}: known are'
      f' {", ".join(METHODS)}.'
    )
  config = common.base()
  config.eval.tasks = 128
  config.model.path = chosen['model']
  config.method = METHODS[chosen['method']]
  config.env = {
    'name': 'tools.make',
    'max_hops': 2,
    'guess': 0.55,
    'fault': 0.05,
  }
  if chosen['method'] == 'rloo':
    config.updates.per_batch = 1  # no ratio, so every update must be on policy
  if chosen['method'] == 'ppo':
    config.prompts.select = 'select.everything'  # a critic learns from all
  if chosen['quick']:
    config.steps = 3
    config.engine.slots = 16
    config.prompts.update(batch=4, samples=4)
    config.updates.microbatch = 4
    config.eval.update(every=2, tasks=16, final_tasks=16)
  return config
