"""What pipelines are made of: stages on the quickstart's tool task.

A model in the settings of a stage is a folder, or `{other}/final`, what an
earlier stage made.
"""

import ml_collections

from experiments import common, quickstart, quickstart_sft, worlds

TOOLS = {'name': 'tools.make', 'max_hops': 2, 'guess': 0.55, 'fault': 0.05}
KIND = 'tools'  # of what is sampled in this environment


def parse(arg: str | None) -> dict:
  """The argument of a pipeline: seed=N and quick."""
  chosen = common.parse(arg, seed='0', quick=False)
  return {'seed': int(chosen['seed']), 'quick': chosen['quick']}


def pipeline(name: str, **stages: dict) -> ml_collections.ConfigDict:
  """The stages in their order."""
  return ml_collections.ConfigDict(
    {'name': name, 'stages': tuple(stages), 'stage': stages}
  )


def stage(
  entry: str,
  config: ml_collections.ConfigDict,
  models: tuple[str, ...] = (),
) -> dict:
  """One stage: the program, its config, and the models that it averages."""
  return {'entry': entry, 'config': config, 'models': models}


def demonstrated(chosen: dict, steps: int, model: str = '', **env) -> dict:
  """Imitation of the demonstrator, by a fresh model or an earlier one."""
  config = quickstart_sft.get_config()
  config.env.update(env)
  if model:
    config.model.update(path=model, size='')
    config.optimizer.lr = 1e-3
  return stage('launch.sft', _paced(config, chosen, steps))


def trained(
  chosen: dict, steps: int, model: str, method: str = 'dapo', **env
) -> dict:
  """Reinforcement learning by a recipe of experiments/recipes.py."""
  config = quickstart.get_config(f'model={model},method={method}')
  config.env.update(env)
  config.optimizer.decay = 0
  return stage('launch.train', _paced(config, chosen, steps))


def sampled(chosen: dict, batches: int, model: str, select: str, **env) -> dict:
  """Episodes of a model, of which a select keeps some."""
  made = trained(chosen, batches, model, **env)
  made['config'].prompts.select = select
  if chosen['quick']:  # a model that has learnt nothing is never right
    made['config'].prompts.select = 'select.everything'
    made['config'].rollout.strategy = 'demonstrations.noisy'
  return made | {'entry': 'launch.sample'}


def imitated(chosen: dict, steps: int, model: str, source: str) -> dict:
  """Imitation of what the stage `source` has kept."""
  config = quickstart_sft.get_config()
  config.model.update(path=model, size='')
  config.env = {
    'name': 'conversations.make',
    'path': f'{{{source}}}/conversations.jsonl',
    'held_out': 0,
    'weights': {KIND: 1.0},
    'judged': dict(TOOLS),
  }
  config.rollout.strategy = 'conversations.whole'
  warmup = min(config.optimizer.warmup, steps // 2)
  config.optimizer.update(lr=1e-3, warmup=warmup)
  return stage('launch.sft', _paced(config, chosen, steps))


def averaged(chosen: dict, *models: str) -> dict:
  """The mean of models."""
  config = quickstart.get_config(f'model={models[0]}')
  return stage('launch.merge', _paced(config, chosen, 1), models)


def _paced(
  config: ml_collections.ConfigDict, chosen: dict, steps: int
) -> ml_collections.ConfigDict:
  """So many steps, five looks at what was learnt; or a smoke run."""
  config.seed, config.steps = chosen['seed'], steps
  config.eval.update(every=max(1, steps // 5), tasks=128, final_tasks=256)
  config.checkpoint.every = config.eval.every
  if config.optimizer.decay:
    config.optimizer.decay = steps
  if chosen['quick']:
    worlds.quicken(config)
    config.steps = min(steps, 2)
    config.prompts.update(batch=4)
    config.updates.microbatch = 4
    config.prompts.samples = min(config.prompts.samples, 4)
    config.rollout.max_turns = 2
  return config
