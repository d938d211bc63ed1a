"""SmolLM2-135M on public task sets: some imitation, then RL, on a CPU.

The first stage imitates the set's own answers to training problems, so that the
model answers in the form that is graded; the second is DAPO on what it earns:

  python -m launch.sft \
    --config=experiments/public_tasks.py:stage=sft,on=word_sorting,model=DIR \
    --workdir=runs/sorting/sft
  python -m launch.train --workdir=runs/sorting/rl --config=\
  experiments/public_tasks.py:stage=rl,on=word_sorting,model=runs/sorting/sft/final

where DIR holds the model; BUILD.md says where it is from, and each environment
what to install for it. The ten top layers of thirty are trained.
`python -m experiments.studies.evidence` runs and measures all of it.

Arguments: stage=sft or rl; on=NAME, one of SETS; model=DIR; quick (a smoke run
of that model, learns nothing).
"""

from experiments import common


def _reasoning(generator: str, **settings: int) -> dict:
  """The block of a generator of reasoning-gym, whose demonstrator is right."""
  name = {'name': 'reasoning.make', 'generator': generator}
  return {**name, 'settings': settings, 'fault': 0.0}


# `size` training problems, of which each stage draws its own; `held_out` are
# measured. Then tokens of a row and of an answer, and what the stages take.
_SHORT = {
  'size': 8192,
  'held_out': 200,
  'turn_tokens': 48,
  'slots': 64,
  'prompts': 8,
  'updates': 2,
  'rate': 1e-4,
}
SETS = {
  'word_sorting': {
    **_SHORT,
    'env': _reasoning(
      'word_sorting', min_words=3, max_words=3, max_word_length=6
    ),
    'context': 416,
    'microbatch': {'sft': 3, 'rl': 16},
    'prefixes': 'shared',
    'steps': {'sft': 40, 'rl': 80},
  },
  'bfcl_simple': {
    'env': {
      'name': 'divided.make',
      'env': {'name': 'bfcl.make', 'category': 'simple_python', 'fault': 0.0},
      'first': 300,
      'tasks': 400,
    },
    'size': 300,
    'held_out': 100,
    'context': 768,
    'turn_tokens': 128,
    'slots': 32,
    'microbatch': {'sft': 2, 'rl': 8},
    'prefixes': 'shared',
    'steps': {'sft': 36, 'rl': 40},
    'prompts': 4,
    'updates': 2,
    'rate': 1e-4,
  },
  'chain_sum': {
    **_SHORT,
    'env': _reasoning(
      'chain_sum', min_terms=2, max_terms=2, min_digits=2, max_digits=2
    ),
    'context': 256,
    'microbatch': {'sft': 4, 'rl': 16},
    'prefixes': 'shared',
    'prompts': 32,
    'updates': 1,
    'rate': 2e-5,
    'steps': {'sft': 240, 'rl': 24},
  },
}
STAGES = ('sft', 'rl')
SAMPLES = 8  # of a prompt in RL
IMITATED = 16  # answers of a step


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg, stage='rl', on='word_sorting', model='runs/smollm2/model', quick=False
  )
  stage = common.one_of('stage', chosen['stage'], STAGES)
  one = SETS[common.one_of('on', chosen['on'], SETS)]
  config = common.base()
  config.steps = one['steps'][stage]
  config.model.update(path=chosen['model'], logit_chunk=128)
  config.env = dict(one['env'])
  config.engine.slots = one['slots']
  config.rollout.update(
    max_turns=1,
    turn_tokens=one['turn_tokens'],
    response_tokens=one['turn_tokens'],
    context=one['context'],
    observation_role='user',
  )
  config.prompts.size = one['size']
  config.updates.update(
    microbatch=one['microbatch'][stage], frozen=r'embed/.*|layers/1?[0-9]/.*'
  )
  config.eval.update(every=config.steps, tasks=8, final_tasks=32)
  config.checkpoint.update(every=8, keep=1)
  if stage == 'sft':
    _imitate(config)
  else:
    _learn(config, one)
  if chosen['quick']:
    _quicken(config)
  return config


def _imitate(config) -> None:
  config.method = {'name': 'terms.imitation'}
  config.rollout.strategy = 'demonstrations.noisy'
  config.seed = 100  # so that RL begins with other problems
  config.prompts.update(batch=IMITATED, samples=1, select='select.everything')
  config.updates.per_batch = 1
  config.optimizer.update(
    lr=2e-4, warmup=4, decay=config.steps, b2=0.99, max_norm=1.0
  )


def _learn(config, one) -> None:
  config.prompts.update(batch=one['prompts'], samples=SAMPLES)
  config.updates.update(per_batch=one['updates'], prefixes=one['prefixes'])
  config.optimizer.update(lr=one['rate'], warmup=4, b2=0.99, max_norm=1.0)


def _quicken(config) -> None:
  config.steps = config.eval.every = config.checkpoint.every = 1
  config.optimizer.update(warmup=0, decay=0)
  config.engine.slots = 8
  config.prompts.update(batch=2, samples=min(config.prompts.samples, 2))
  config.eval.update(tasks=2, final_tasks=2)
