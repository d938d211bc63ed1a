"""The quickstart with rollouts that run ahead of the learner.

  python -m launch.train \
    --config=experiments/asynchronous.py:model=DIR,correction=tis \
    --workdir=runs/asynchronous/tis

where DIR is the `final` folder of experiments/quickstart_sft.py. Groups are
sampled while the learner updates, by weights up to two versions old; what that
does to the objective is the correction. It pays where environments are slow:
`python -m benchmarks.pipeline` measures by how much.

Arguments: model=DIR; correction=NAME, one of CORRECTIONS, or none, which takes
nothing for its own that older weights sampled and is the synchronous loop;
quick (a minute's smoke run, learns nothing).
"""

from experiments import common, quickstart

_DAPO = {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28}
CORRECTIONS: dict[str, dict] = {
  # Truncated importance weights.
  'tis': {'name': 'offpolicy.tis', 'base': _DAPO, 'low': 0.0, 'high': 2.0},
  # Clips around the policy of now, weighs by what sampled (AReaL).
  'decoupled': {'name': 'offpolicy.decoupled_ppo', 'base': _DAPO},
  # One ratio to the sampler, cut on both sides (GLM-5).
  'double_sided': {
    'name': 'offpolicy.dis',
    'base': _DAPO,
    'low': 0.2,
    'high': 0.28,
  },
  # Keeps tokens whose ratio is small against the sampler's entropy.
  'estr': {'name': 'offpolicy.estr', 'base': _DAPO, 'tau': 1.0, 'eps': 0.01},
}
_NONE = 'none'


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg, model='runs/quickstart/sft/final', correction='tis', quick=False
  )
  correction = common.one_of(
    'correction', chosen['correction'], (*CORRECTIONS, _NONE)
  )
  quick = ',quick' if chosen['quick'] else ''
  config = quickstart.get_config(f'model={chosen["model"]}{quick}')
  config.rollout.strategy = 'asynchronous.multi_turn'
  if correction != _NONE:
    config.method = CORRECTIONS[correction]
    config.rollout.update(ahead=2, window=2 * config.prompts.batch)
    config.prompts.in_flight = config.prompts.batch
  return config
