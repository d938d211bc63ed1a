r"""Evaluates a model: python -m launch.evaluate --config=FILE --output=FILE.

The config says the model, the environment and the budgets of an episode; the
flags say on which tasks, and how tokens are chosen:

  python -m launch.evaluate --config=experiments/quickstart.py:model=DIR \
    --samples=4 --output=evaluation.json

With the flags left alone, the tasks and the randomness are those that training
ends with: the sampled success of a run's results.json comes out again.
"""

import json
import pathlib
import time
from typing import Any

import jax
import ml_collections
import rich.box
import rich.table
from absl import app, flags

from arl import episode
from arl.envs import base
from arl.evaluate import tasks as tasks_lib
from arl.rollout import engine
from arl.train import build, evaluation, outcome, settings
from launch import show, start


def define() -> None:
  """Defines the flags."""
  start.define_config()
  flags.DEFINE_string('output', None, 'The JSON file to write.')
  flags.DEFINE_enum(
    'split', base.HELD_OUT, base.SPLITS, 'Which tasks of the environment.'
  )
  flags.DEFINE_integer(
    'first', None, 'Index of the first task; config.eval.tasks if not given,'
    ' after those that chose the best checkpoint.', 0
  )  # fmt: skip
  flags.DEFINE_integer('tasks', 512, 'How many tasks.', 1)
  flags.DEFINE_integer('samples', 1, 'Episodes a task.', 1)
  flags.DEFINE_float('temperature', 1.0, '0 is greedy.', 0)
  flags.DEFINE_float('top_p', 1.0, 'Nucleus; 1 keeps all.', 0, 1)
  flags.DEFINE_integer('top_k', 0, 'Best tokens; 0 keeps all.', 0)
  flags.DEFINE_integer('shown', 8, 'Transcripts to write.', 0)


def evaluate(
  config: ml_collections.ConfigDict,
  *,
  split: str,
  first: int,
  tasks: int,
  samples: int,
  sampling: engine.Sampling,
  shown: int,
) -> dict[str, Any]:
  """Measures the model of a config on tasks of its environment.

  Args:
    config: see `arl.train.settings`.
    split: of the environment's tasks.
    first: index of the first task.
    tasks: how many.
    samples: episodes a task.
    sampling: how tokens are chosen.
    shown: how many transcripts to give.

  Returns:
    JSON-serializable facts: the choices, what `arl.evaluate.tasks.measure`
    gives, and `transcripts` of the first episodes.
  """
  settings.check(config, settings.TRAIN)
  began = time.monotonic()
  world = build.world(config)
  problems = [world.env.task(split, first + i) for i in range(tasks)]
  path = (evaluation.FINAL,)
  episodes = evaluation.run(world, problems, sampling, path, samples)
  return {
    'model': config.model.path or config.model.size,
    'env': config.env.to_dict(),
    'split': split,
    'first': first,
    'tasks': tasks,
    'samples': samples,
    'temperature': sampling.temperature,
    'top_p': sampling.top_p,
    'top_k': sampling.top_k,
    **tasks_lib.measure(
      episodes, tasks_lib.answer if world.env.answer else None
    ),
    'seconds': round(time.monotonic() - began, 1),
    'config_hash': settings.digest(config),
    'versions': outcome.versions(),
    'device': jax.devices()[0].device_kind,
    'transcripts': [transcript(one) for one in episode.whole(episodes)[:shown]],
  }


def transcript(one: episode.Episode) -> dict[str, Any]:
  """What was said in an episode, and how it ended."""
  return {
    'task': one.task.id,
    'sample': one.sample,
    'status': one.status,
    'error': one.error,
    'reward': episode.total_reward(one),
    'system': one.task.system,
    'prompt': one.task.prompt,
    'turns': [
      {'action': e.action, 'answer': e.turn.text, 'reward': e.turn.reward}
      for e in one.exchanges
    ],
  }


def table(result: dict[str, Any]) -> rich.table.Table:
  """The result for people to read."""
  made = rich.table.Table('', '', box=rich.box.SIMPLE, show_header=False)
  made.add_row('success', f'{show.estimate(result)}, {result["interval"]}')
  if 'success_error' in result:
    error = f'{result["success_error"]:.3f}, clustered by task'
    made.add_row('its standard error', error)
  for label, name in (
    ('pass@', 'pass_at'),
    ('maj@', 'maj_at'),
    ('pass^', 'pass_all'),
  ):
    for k, found in result[name].items():
      made.add_row(f'{label}{k}', show.estimate(found))
  for name in ('reward', 'turns', 'tokens'):
    low, high = result[f'{name}_low'], result[f'{name}_high']
    made.add_row(f'mean {name}', f'{result[name]:.3g} [{low:.3g}, {high:.3g}]')
  for name in ('episodes', *sorted(episode.STATUSES)):
    made.add_row(name.replace('_', ' '), str(result[name]))
  made.add_row('seconds', str(result['seconds']))
  return made


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  given = flags.FLAGS
  config, first = given.config, given.first
  output = pathlib.Path(given.output)
  output.parent.mkdir(parents=True, exist_ok=True)
  result = evaluate(
    config,
    split=given.split,
    first=config.eval.tasks if first is None else first,
    tasks=given.tasks,
    samples=given.samples,
    sampling=engine.Sampling(given.temperature, given.top_p, given.top_k),
    shown=given.shown,
  )
  text = json.dumps(result, indent=2, allow_nan=False) + '\n'
  output.write_text(text, encoding='utf-8')
  out = show.console()
  title = f'{result["model"]} on {result["tasks"]} {result["split"]} tasks'
  out.print(title, markup=False)
  out.print(table(result))
  out.print(f'written to {output}', markup=False)


if __name__ == '__main__':
  start.run(main, define, required=('config', 'output'))
