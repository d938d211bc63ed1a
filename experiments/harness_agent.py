"""Training an agent that knows nothing of arl: the quickstart, from outside.

The agent is experiments/agents/tool_user.py, a program written against the
`openai` package alone. It calls its own tools in OpenAI's format and is pointed
at the proxy in front of the engine; the rest is the quickstart.

  python -m launch.train --config=experiments/harness_agent.py:model=DIR \
    --workdir=runs/harness

where DIR is the `final` folder of experiments/quickstart_sft.py.
`python -m experiments.studies.harness` remakes what RESULTS.md has.

A process of the agent plays 128 episodes at once, as starting Python and
importing `openai` takes a second or more.

Arguments: model=DIR; quick (a minute's smoke run, learns nothing).
"""

from experiments import common


def get_config(arg: str | None = None):
  chosen = common.parse(arg, model='runs/quickstart/sft/final', quick=False)
  config = common.base()
  common.start_from(config, chosen['model'])
  config.env = {
    'name': 'outside.make',
    'of': {
      'name': 'tools.make',
      'max_hops': 2,
      'guess': 0.55,
      'fault': 0.05,
    },
    'command': 'python -m experiments.agents.tool_user',
    'syntax': 'positional',
    'seconds': 600.0,
    'episodes': 128,
    'processes': 2,
  }
  config.rollout.strategy = 'harness.rollouts'
  config.eval.tasks = 128
  if chosen['quick']:
    config.steps = 3
    config.engine.slots = 16
    config.prompts.update(batch=4, samples=4)
    config.updates.microbatch = 4
    config.eval.update(every=2, tasks=16, final_tasks=16)
  return config
