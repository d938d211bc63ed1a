"""The quickstart's agent, taught by a better one in place of rewards.

  python -m launch.train --config=experiments/distill.py:model=DIR,teacher=DIR \
    --workdir=runs/distill/opd

where the student is the `final` folder of experiments/quickstart_sft.py and the
teacher that of experiments/quickstart.py. What each form reaches:
`python -m experiments.studies.distillation`.

Arguments: model=DIR; teacher=DIR, or the URL of a server; method=NAME, one of
DISTILLED; quick (a minute's smoke run, learns nothing: where none is given, the
teacher is the student as it starts).
"""

from experiments import common, quickstart

_DAPO = {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28}
_OPD = {'name': 'distillation.opd', 'most': 10.0}

DISTILLED: dict[str, dict] = {
  # arl.methods.distillation: what the teacher says of the sampled tokens.
  'opd': _OPD,
  'opd_to_go': {'name': 'distillation.opd_to_go', 'gamma': 1.0, 'most': 10.0},
  'by_position': {
    'name': 'distillation.by_position',
    'base': _OPD,
    'half': 16.0,
  },
  'by_entropy': {
    'name': 'distillation.by_entropy',
    'base': _OPD,
    'least': 0.1,
  },
  'exopd_1': {'name': 'distillation.exopd', 'scale': 1.0, 'clip': 0.2},
  'exopd': {'name': 'distillation.exopd', 'scale': 1.25, 'clip': 0.2},
  'glm5_cross_stage': {'name': 'distillation.glm5_cross_stage'},
  'reopold': {
    'name': 'distillation.reopold',
    'share': 0.2,
    'unsure': 0.5,
    'switch': 0.5,
  },
  'sod': {
    'name': 'distillation.sod',
    'base': _DAPO,
    'coef': 1.0,
    'delta': 0.5,
  },
  'atod': {'name': 'distillation.atod', 'base': _DAPO, 'least': 0.1},
  'turnopd': {'name': 'distillation.turnopd'},
  # arl.methods.matching: what it says of many tokens in their place.
  'opd_full': {'name': 'matching.opd_full'},
  'opd_top': {'name': 'matching.opd_top', 'k': 16},
  'opd_tail': {'name': 'matching.opd_tail', 'k': 16},
  'opd_candidates': {'name': 'matching.opd_candidates', 'k': 16, 'clip': 0.2},
  'gkd': {'name': 'matching.gkd', 'beta': 0.5, 'k': 64},
  # Half of the sequences are the student's own, half the demonstrator's.
  'gkd_mixed': {'name': 'matching.gkd', 'beta': 0.5, 'k': 64},
  'gkd_full': {'name': 'matching.gkd_full'},
  'kd_full': {'name': 'matching.kd_full'},
  'opad': {'name': 'matching.opad'},
  'neohorse': {'name': 'matching.neohorse', 'k': 64},
  'tropd': {'name': 'matching.tropd', 'k': 64},
  'eopd': {'name': 'matching.eopd', 'tau': 0.8, 'k': 16, 'clip': 0.2},
}


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg,
    model='runs/quickstart/sft/final',
    teacher='',
    method='opd',
    quick=False,
  )
  method = common.one_of('method', chosen['method'], DISTILLED)
  quick = ',quick' if chosen['quick'] else ''
  config = quickstart.get_config(f'model={chosen["model"]}{quick}')
  teacher = 'start' if chosen['quick'] else 'runs/quickstart/dapo/final'
  config.model.teacher = chosen['teacher'] or teacher
  config.method = DISTILLED[method]
  # A teacher has something to say of groups that are all right or all wrong.
  config.prompts.select = 'select.everything'
  if method == 'gkd_mixed':
    config.rollout.strategy = 'demonstrations.beside'
    config.prompts.batch *= config.prompts.samples // 2
    config.prompts.samples = 2
  return config
