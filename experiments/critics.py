"""Critics and reward models on the quickstart's task.

  python -m launch.train --config=experiments/critics.py:model=DIR,method=NAME \
    --workdir=runs/critics/NAME

where DIR is the `final` folder of experiments/quickstart_sft.py. Every critic
has a trunk of its own, one rollout a prompt, and as many rollouts a batch as
`dapo` has with eight. `values` is a critic alone, of the policy as it is; its
`final` is the critic of a run with critic=DIR. Of `bt`, `orm` and `prm` the
`final` is a reward model for `arl.train.reward_models`. `python -m
experiments.studies.critics` runs them all.

Arguments: model=DIR; method=NAME, one of METHODS; critic=DIR, where the critic
comes from in place of a copy of the policy; quick (a minute's smoke run, learns
nothing).
"""

from experiments import common, quickstart

EPISODES = 256  # a batch
_ALL = {'prompts.select': 'select.everything'}
_ONE_A_PROMPT = {'prompts.samples': 1, 'prompts.batch': EPISODES, **_ALL}
_LEARNT = {'updates.per_batch': 1, 'steps': 30}
_VC_PPO = {
  'name': 'ppo.vc_ppo',
  'lam': 0.95,
  'low': 0.2,
  'high': 0.28,
  'value_coef': 0.5,
  'value_clip': 0.5,
}
METHODS: dict[str, dict] = {
  'mse': _VC_PPO,
  'hl_gauss': {
    'name': 'ppo.categorical',
    'low': -0.1,
    'high': 1.1,
    'lam': 0.95,
    'clip': 0.2,
    'value_coef': 0.5,
  },
  'bounded': {
    'name': 'ppo.bpco',
    'lowest': 0.0,
    'highest': 1.0,
    'alpha': 0.4,
    'bound': 0.2,
    'value_coef': 0.5,
  },
  'vineppo': {'name': 'critics.vineppo', 'clip': 0.2, 'kl_coef': 0.0001},
  'values': {'name': 'critics.alone', 'base': _VC_PPO},
  'bt': {'name': 'reward.bt', 'margin': 0.0, 'centering': 0.01},
  'orm': {'name': 'reward.orm', 'above': 0.5},
  'prm': {'name': 'reward.prm'},
}
_SETTINGS: dict[str, dict] = {
  'mse': _ONE_A_PROMPT,
  'hl_gauss': {**_ONE_A_PROMPT, 'model.value_bins': 41},
  'bounded': _ONE_A_PROMPT,
  'vineppo': {**_ALL, 'rollout.strategy': 'vine.three'},
  'values': {**_ONE_A_PROMPT, **_LEARNT, 'steps': 50},
  'bt': {**_LEARNT, 'prompts.select': 'pairs.best_against_worst'},
  'orm': {**_LEARNT, **_ALL},
  'prm': {
    **_LEARNT,
    **_ALL,
    'prompts.samples': 1,
    'rollout.strategy': 'vine.soft_labels',
  },
}


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg,
    model='runs/quickstart/sft/final',
    method='mse',
    critic='own',
    quick=False,
  )
  method = common.one_of('method', chosen['method'], METHODS)
  config = quickstart.get_config(f'model={chosen["model"]}')
  config.method = METHODS[method]
  config.update_from_flattened_dict(_SETTINGS[method])
  if method != 'vineppo':
    config.model.critic = chosen['critic']
  if chosen['quick']:
    config.steps = 3
    config.engine.slots = 16
    config.prompts.batch = 16 // config.prompts.samples
    config.updates.microbatch = 8
    config.eval.update(every=2, tasks=16, final_tasks=16)
  return config
