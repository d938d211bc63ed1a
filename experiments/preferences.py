"""The quickstart's agent from preferences: its best episodes over its worst.

  python -m launch.train --config=experiments/preferences.py:model=DIR \
    --workdir=runs/preferences/dpo

where DIR is the `final` folder of experiments/quickstart_sft.py. Of the eight
episodes of a task the best is preferred to the worst, and a task whose episodes
earn the same teaches nothing: online DPO (arXiv:2402.04792) and its kin, the
reference being the warm start. `spin` compares by source and not by reward: an
episode of the demonstrator is preferred to one of the policy (SPIN,
arXiv:2401.01335). What each reaches:
`python -m experiments.studies.preferences`.

Arguments: model=DIR; method=NAME, one of PREFERRED; quick (a minute's smoke
run, learns nothing).
"""

from experiments import common, quickstart

PREFERRED: dict[str, dict] = {
  'dpo': {'name': 'preference.dpo', 'beta': 0.1},
  'dpo_smoothed': {
    'name': 'preference.dpo_smoothed',
    'beta': 0.1,
    'smoothing': 0.1,
  },
  'dpo_robust': {
    'name': 'preference.dpo_robust',
    'beta': 0.1,
    'flipped': 0.1,
  },
  'step_dpo': {'name': 'preference.step_dpo', 'beta': 0.5},
  'ipo': {'name': 'preference.ipo', 'beta': 0.1},
  'ipo_summed': {'name': 'preference.ipo_summed', 'beta': 0.1},
  'simpo': {'name': 'preference.simpo', 'beta': 2.0, 'gamma': 1.0},
  'orpo': {'name': 'preference.orpo', 'coef': 0.1},
  # What the demonstrator does is preferred to what the policy does.
  'spin': {'name': 'preference.dpo', 'beta': 0.1},
  'pair_wins': {
    'name': 'preference.pair_wins',
    'clip': 0.2,
    'kl_coef': 0.01,
  },
  'pair_stepped': {
    'name': 'preference.pair_stepped',
    'delta': 0.2,
    'kl_coef': 0.01,
  },
}
# Pairs of whole episodes, best over worst, are the rule.
_SELECT = {
  'spin': 'pairs.data_against_policy',
  'step_dpo': 'pairs.first_step',
  'pair_wins': 'select.varied',
  'pair_stepped': 'select.varied',
}


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg, model='runs/quickstart/sft/final', method='dpo', quick=False
  )
  method = common.one_of('method', chosen['method'], PREFERRED)
  quick = ',quick' if chosen['quick'] else ''
  config = quickstart.get_config(f'model={chosen["model"]}{quick}')
  config.method = PREFERRED[method]
  config.prompts.select = _SELECT.get(method, 'pairs.best_against_worst')
  if method == 'spin':  # as many episodes, half of them demonstrations
    config.rollout.strategy = 'demonstrations.beside'
    config.prompts.batch *= config.prompts.samples // 2
    config.prompts.samples = 2
  return config
