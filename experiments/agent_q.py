"""Agent Q: a tree search over actions, and preferences among those it tried.

  python -m launch.train \
    --config=experiments/agent_q.py:env=frozen_lake,model=DIR \
    --workdir=runs/agent_q/frozen_lake

where DIR is the `final` folder of experiments/world_sft.py (arXiv:2408.07199).
Each task is simulated sixteen times, with four actions proposed in a state; two
that were tried in one state and turned out to be worth more and less are a
pair. A model of this size cannot be asked for its judgement, so its own
likelihood ranks the proposals; one that follows instructions is its own critic,
by --config.rollout.strategy=search.by_critic.

Where the state is hidden, as in keydoor, a search prefers what was lucky: the
room that held the key, which nobody could know. There a run got worse.

Arguments: env=NAME, one of experiments/worlds.py; model=DIR; quick (a minute's
smoke run, learns nothing).
"""

from experiments import common, quickstart, worlds


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg,
    env='frozen_lake',
    model='runs/worlds/frozen_lake/sft/final',
    quick=False,
  )
  config = quickstart.get_config(f'model={chosen["model"]}')
  config.steps = worlds.set_up(config, chosen['env'])['steps']
  config.method = {'name': 'preference.agent_q', 'beta': 0.1}
  config.rollout.strategy = 'search.by_likelihood'
  config.engine.slots = 128
  config.prompts.update(samples=16, select='pairs.siblings')
  if chosen['quick']:
    worlds.quicken(config)
    config.prompts.update(batch=4, samples=4)
    config.updates.microbatch = 4
  return config
