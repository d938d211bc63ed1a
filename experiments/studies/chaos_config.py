"""The runs of experiments/studies/chaos.py, each with other things to remember.

Arguments: model=DIR; way=NAME, one of WAYS; steps=N.
"""

from experiments import common

_TIS = {'name': 'offpolicy.tis', 'base': 'grpo.dapo'}
# What differs from the plainest run, by block.
WAYS: dict[str, dict] = {
  'plain': {},
  # What a curriculum believes, and spreads of rewards.
  'estimated': {
    'prompts': {'choose': {'name': 'estimates.kgps'}, 'least_spread': 0.01},
    'eval': {'crossed': 2},
  },
  # What a bandit believes, and groups that wait for a later batch.
  'refilled': {
    'method': _TIS,
    'prompts': {
      'choose': {'name': 'estimates.mopps'},
      'select': 'select.varied',
      'rounds': 3,
      'max_age': 2,
    },
  },
  # A buffer of groups that are trained on again, and a turned temperature.
  'replayed': {
    'method': _TIS,
    'prompts': {
      'max_age': 2,
      'scale': 0.5,
      'replay': {'name': 'replay.mixture', 'size': 8, 'share': 0.5},
    },
    'knobs': {
      'temperature': {'name': 'knobs.toward_entropy', 'target': 1.5},
    },
  },
  # Episodes that go on in a later step.
  'in_parts': {
    'method': _TIS,
    'rollout': {'budget': 3},
    'prompts': {'max_age': 3, 'in_flight': 8},
  },
  # Groups on their way while the learner updates.
  'ahead': {
    'method': _TIS,
    'rollout': {
      'strategy': 'asynchronous.multi_turn',
      'ahead': 2,
      'window': 5,
    },
    'prompts': {'in_flight': 6, 'size': 4096},
  },
  # Weights that are handed to a server; engine.urls comes as a flag.
  'served': {},
  # Programs that judge; few, as each takes its time.
  'sandboxed': {
    'env': {'seconds': 0.2},
    'prompts': {'batch': 2, 'samples': 2},
    'updates': {'per_batch': 1},
    'eval': {'tasks': 1, 'final_tasks': 1},
  },
}


def get_config(arg: str | None = None):
  chosen = common.parse(arg, model='', way='plain', steps='12')
  if chosen['way'] not in WAYS:
    raise ValueError(
      f'config argument way={chosen["way"]}: known are {", ".join(WAYS)}.'
    )
  config = common.base()
  config.steps = int(chosen['steps'])
  config.model.path = chosen['model']
  config.method = {'name': 'grpo.dapo'}
  config.env = {'name': 'experiments.studies.chaos_world.make', 'seconds': 0.0}
  config.engine.slots = 16
  config.rollout.update(max_turns=2, turn_tokens=6, context=24)
  config.prompts.update(size=24, batch=4, samples=4, select='select.everything')
  config.updates.update(microbatch=4, per_batch=2)
  config.optimizer.update(lr=0.01, warmup=2, max_norm=1.0)
  config.eval.update(every=4, tasks=4, final_tasks=4)
  config.checkpoint.update(every=2, keep=3)
  for block, settings in WAYS[chosen['way']].items():
    if block == 'method':
      config.method = settings
    else:
      config[block].update(settings)
  return config
