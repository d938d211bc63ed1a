"""Samples from a model: python -m launch.sample --config=FILE --workdir=DIR.

Plays config.steps batches of training tasks as launch.train would, with the
same strategy and budgets, keeps what config.prompts.select keeps, if it can be
written as text and there is something to learn in it, and writes it
to conversations.jsonl in the workdir, which `conversations.make` reads; its
kind is the module of the environment. Nothing is trained: the method and all
settings of updates are not used. results.json says how many were kept, and of
how many tasks none was.
"""

import json
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import jax
import ml_collections
import numpy as np
from absl import app, flags

from arl import episode, names
from arl.evaluate import summary
from arl.rollout import chat as chat_lib
from arl.train import build, choosing, evaluation, outcome, settings
from launch import start

FILE = 'conversations.jsonl'


class Counted:
  """An engine that counts what it samples."""

  def __init__(self, engine):
    self.engine, self.tokens = engine, 0

  def generate(self, requests, sampling):
    """The samples of the engine, counted."""
    made = self.engine.generate(requests, sampling)
    self.tokens += sum(len(sample.tokens) for sample in made)
    return made

  def __getattr__(self, name):
    return getattr(self.engine, name)


def record(one: episode.Episode, role: str, kind: str) -> dict[str, Any]:
  """An episode as a conversation.

  Turns off its mask, and those without a word, are not to be learnt.

  Args:
    one: the episode.
    role: under which observations are shown.
    kind: of the record.

  Raises:
    ValueError: a row of a trajectory that has several.
  """
  if one.row:
    raise ValueError(
      f'task {one.task.id!r}: its context was rewritten on the way, so it is'
      ' not one conversation; choose a rollout.strategy of single rows.'
    )
  said: list[dict[str, Any]] = []
  for place, text, _ in chat_lib.introduction(one.task, role):
    said.append({'role': place, 'content': text})
    if place == 'assistant':
      said[-1]['train'] = False
  for turn, exchange in enumerate(one.exchanges):
    said.append({'role': 'assistant', 'content': exchange.action})
    said_here = np.any(one.mask & (one.turn == turn))
    if not said_here or not exchange.action.strip():
      said[-1]['train'] = False
    said.append({'role': role, 'content': exchange.turn.text})
  return {'id': one.task.id, 'kind': kind, 'messages': said[:-1]}


def _learnt(made: dict[str, Any]) -> bool:
  return any(
    said['role'] == 'assistant' and 'train' not in said
    for said in made['messages']
  )


def _spelt(made: dict[str, Any], specials: Sequence[str]) -> bool:
  """Whether what was said holds special tokens, which no text may."""
  texts = [said['content'] for said in made['messages']]
  return any(special in text for text in texts for special in specials)


def sample(config: ml_collections.ConfigDict, workdir: str) -> dict[str, Any]:
  """Samples, selects and writes; gives what results.json holds.

  Args:
    config: see `arl.train.settings`.
    workdir: where both files are written, and replaced.

  Raises:
    ValueError: a setting that cannot work; or nothing was kept.
  """
  settings.check(config, settings.TRAIN)
  began, folder = time.monotonic(), pathlib.Path(workdir)
  world = build.world(config)
  counted = Counted(world.engine)
  episodes = _play(config, world._replace(engine=counted))
  graded = [one for one in episodes if episode.graded(one)]
  groups = episode.groups(graded)
  select = names.resolve(config.prompts.select, 'arl.prompts')
  kind = config.env.name.partition('.')[0]
  made = [
    record(one, world.chat.role, kind)
    for group in select(groups)
    for one in group.episodes
  ]
  specials = chat_lib.specials(world.tokenizer)
  kept = [one for one in made if _learnt(one) and not _spelt(one, specials)]
  if not kept:
    raise ValueError(
      f'{config.prompts.select} kept none of the {len(graded)} episodes; sample'
      ' more of them, or from a better model.'
    )
  result = {
    'sampled': summary.success(episodes),
    'sampled_tokens': counted.tokens,
    'tasks': len(groups),
    'tasks_kept': len({one['id'] for one in kept}),
    'kept': len(kept),
    'wall_seconds': round(time.monotonic() - began, 1),
    'steps': config.steps,
    'seed': config.seed,
    'config_hash': settings.digest(config),
    'versions': outcome.versions(),
    'device': jax.devices()[0].device_kind,
  }
  folder.mkdir(parents=True, exist_ok=True)
  lines = [json.dumps(one, ensure_ascii=False) + '\n' for one in kept]
  (folder / FILE).write_text(''.join(lines), encoding='utf-8')
  text = json.dumps(result, indent=2) + '\n'
  (folder / 'results.json').write_text(text, encoding='utf-8')
  return result


def _play(
  config: ml_collections.ConfigDict, world: build.World
) -> Sequence[episode.Episode]:
  """All episodes of the run, as training would roll them out."""
  strategy = names.resolve(config.rollout.strategy, 'arl.rollout')
  sampling = evaluation.variants(config.rollout.temperature)['sampled']
  tasks_of = choosing.task_stream(config, world.env)
  made: list[episode.Episode] = []
  for step in range(config.steps):
    path = evaluation.TRAINING, step
    plan = evaluation.plan(world, config.prompts.samples, sampling, path)
    made += strategy(world.engine, world.env, world.chat, tasks_of(step), plan)
    print(f'sampled {step + 1}/{config.steps}', flush=True)
  return made


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  made = sample(flags.FLAGS.config, flags.FLAGS.workdir)
  print(
    f'kept {made["kept"]} conversations of {made["tasks_kept"]} of'
    f' {made["tasks"]} tasks'
  )


def define() -> None:
  """Defines the flags."""
  start.define_config()
  flags.DEFINE_string('workdir', None, 'Where the files are written.')


if __name__ == '__main__':
  start.run(main, define, required=('config', 'workdir'))
