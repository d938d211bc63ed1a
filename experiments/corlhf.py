"""CoRLHF on the quickstart's task: DAPO on a reward model that is corrected.

  python -m launch.corlhf --config=experiments/corlhf.py:model=DIR \
    --workdir=runs/corlhf

where DIR is the `final` folder of experiments/quickstart_sft.py. The policy
sees no reward of the environment; pairs of its own rollouts, best against
worst by the environment, are what the reward model learns before each batch.

Arguments: model=DIR; quick (a minute's smoke run, learns nothing).
"""

from experiments import common, quickstart


def get_config(arg: str | None = None):
  chosen = common.parse(arg, model='runs/quickstart/sft/final', quick=False)
  more = ',quick' if chosen['quick'] else ''
  config = quickstart.get_config(f'model={chosen["model"]}{more}')
  with config.unlocked():
    config.ranking = {
      'margin': 0.0,
      'centering': 0.01,
      'lr': 5e-4,
      'pairs': 4 if chosen['quick'] else 32,
      'replayed': 256,
      'held_out': 2 if chosen['quick'] else 32,
      'gate': 0.02,
    }
  return config
