"""The warm start of experiments/self_distill.py: one that reads hints, too.

Half of the demonstrations are those of experiments/quickstart_sft.py. In the
other half a hint stands before the prompt, the answer or the steps to it, and
the demonstrator acts on it: told the answer he gives it at once.

  python -m launch.sft --config=experiments/self_distill_sft.py \
    --workdir=runs/self_distill/sft

Arguments: quick (a minute's smoke run, learns nothing).
"""

from experiments import common, quickstart_sft


def get_config(arg: str | None = None):
  chosen = common.parse(arg, quick=False)
  config = quickstart_sft.get_config('quick' if chosen['quick'] else '')
  plain = config.env.to_dict()
  hinted = lambda hint: {'name': 'hinted.make', 'env': plain, 'hint': hint}
  config.env = {
    'name': 'mixture.make',
    'parts': {
      'plain': plain,
      'answer': hinted('answer'),
      'steps': hinted('steps'),
    },
    'weights': {'plain': 2.0, 'answer': 1.0, 'steps': 1.0},
  }
  config.rollout.context = 192
  if not chosen['quick']:
    config.steps = config.optimizer.decay = 1200
    config.eval.every = config.checkpoint.every = 600
  return config
