"""Runs stages after each other.

  python -m launch.pipeline --config=FILE --workdir=DIR

Each stage is a program with a config of its own, and runs in a process and a
folder of its own, named after it. In its settings `{other}/final` stands for
what an earlier stage wrote. A stage with results is not run again, one that was
stopped goes on from its checkpoint: run the same command again. pipeline.json
says what each stage did and cost, pipeline.png shows it.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
from absl import app, flags

from arl.report import stages as picture
from arl.train import interrupt, metrics, settings
from launch import start

ENTRIES = ('launch.sft', 'launch.train', 'launch.sample', 'launch.merge')
_REFERENCE = re.compile(r'\{(\w+)\}(?=/)')
# Strategies that sample nothing: their tokens were there before.
_WRITTEN = re.compile(r'(demonstrations\.noisy|recorded\.|conversations\.).*')


def check(config: ml_collections.ConfigDict) -> None:
  """Refuses stages that cannot run after each other.

  Raises:
    ValueError: an unknown program, or a reference to what is no earlier stage.
  """
  before: list[str] = []
  for name in config.stages:
    if name in before or name not in config.stage:
      raise ValueError(
        f'config.stages: {name!r} is there twice, or config.stage does not say'
        ' what it is.'
      )
    stage = config.stage[name]
    if stage.entry not in ENTRIES:
      raise ValueError(
        f'config.stage.{name}.entry is {stage.entry!r}; it must be one of'
        f' {", ".join(ENTRIES)}.'
      )
    for other in references(stage.to_dict()):
      if other not in before:
        raise ValueError(
          f'config.stage.{name} refers to {{{other}}}, which is no stage before'
          f' it: {", ".join(before) or "it is the first"}.'
        )
    before.append(name)


def references(value: Any) -> set[str]:
  """The stages that settings refer to."""
  if isinstance(value, Mapping):
    value = list(value.values())
  if isinstance(value, list | tuple):
    return set().union(*map(references, value))
  return set(_REFERENCE.findall(value)) if isinstance(value, str) else set()


def resolved(value: Any, root: pathlib.Path) -> Any:
  """The settings with the folders that they refer to."""
  if isinstance(value, Mapping):
    return {key: resolved(x, root) for key, x in value.items()}
  if isinstance(value, list | tuple):
    return [resolved(x, root) for x in value]
  if not isinstance(value, str):
    return value
  return _REFERENCE.sub(lambda found: str(root / found[1]), value)


def prepare(name: str, stage: Mapping[str, Any], root: pathlib.Path) -> None:
  """Notes in a stage's folder what it is made of, and writes its config.

  Raises:
    ValueError: it was made before, with other settings or from another outcome
      of the stages it refers to.
  """
  folder = root / name
  folder.mkdir(parents=True, exist_ok=True)
  made_of = {
    'stage': stage,
    'inputs': {n: _digest(root / n) for n in sorted(references(stage))},
  }
  text = json.dumps(made_of, indent=2, sort_keys=True) + '\n'
  facts = folder / 'stage.json'
  if facts.exists() and _begun(folder):
    before = json.loads(facts.read_text(encoding='utf-8'))
    differ = settings.changes(before, json.loads(text))
    if differ:
      raise ValueError(
        f'stage {name!r} in {folder} was made of something else'
        f' ({"; ".join(differ)}); remove the folder to make it anew, or choose'
        ' another workdir.'
      )
  facts.write_text(text, encoding='utf-8')
  config = json.dumps(resolved(stage['config'], root), indent=2)
  (folder / 'config.json').write_text(config + '\n', encoding='utf-8')


def _begun(folder: pathlib.Path) -> bool:
  checkpoints = folder / 'checkpoints'
  some = checkpoints.exists() and any(checkpoints.iterdir())
  return some or (folder / 'results.json').exists()


def _digest(folder: pathlib.Path) -> str:
  """Stands for the outcome of a stage, which differs each time it is made."""
  return hashlib.sha256((folder / 'results.json').read_bytes()).hexdigest()[:12]


def run(config: ml_collections.ConfigDict, workdir: str) -> bool:
  """Runs what has no results yet; tells whether all stages have them now.

  Raises:
    ValueError: stages that cannot run, or that are of other settings.
    RuntimeError: a stage failed.
  """
  check(config)
  root = pathlib.Path(workdir)
  rows: list[dict[str, Any]] = []
  for name in config.stages:
    stage = json.loads(config.stage[name].to_json_best_effort())
    prepare(name, stage, root)
    folder = root / name
    if not (folder / 'results.json').exists():
      print(f'--- stage {name}', flush=True)
      _start(stage, folder, root)
    if not (folder / 'results.json').exists():
      print(f'stopped in stage {name}; run the same command again to go on')
      return False
    rows.append(summary(name, stage, folder))
    _write(root, config.name, rows, config.stages)
  return True


def _start(
  stage: Mapping[str, Any], folder: pathlib.Path, root: pathlib.Path
) -> None:
  command = [
    sys.executable, '-m', stage['entry'],
    f'--config={pathlib.Path(__file__).parent}/stage.py:{folder}/config.json',
    f'--workdir={folder}',
  ]  # fmt: skip
  if stage['models']:
    command.append(f'--models={",".join(resolved(stage["models"], root))}')
  # What two stages compile alike is compiled once.
  cache = {'JAX_COMPILATION_CACHE_DIR': str(root / '.compiled')}
  with interrupt.requested():  # the stage itself answers to Ctrl-C
    done = subprocess.run(command, env={**cache, **os.environ})
  if done.returncode:
    raise RuntimeError(f'{" ".join(command)} failed; see what it says above.')


def summary(
  name: str, stage: Mapping[str, Any], folder: pathlib.Path
) -> dict[str, Any]:
  """What a stage with results did and cost.

  Success is held out and sampled; None where the stage changes no policy. The
  tokens are those that a policy sampled to be learnt from, None where the
  metrics do not tell.
  """
  result = json.loads((folder / 'results.json').read_text('utf-8'))
  success = {
    when: result[when]['sampled']['success'] if when in result else None
    for when in ('before', 'after')
  }
  return {
    'name': name,
    'entry': stage['entry'],
    'method': result.get('method', ''),
    'seconds': result['wall_seconds'],
    **success,
    'sampled_tokens': _tokens(stage, result, folder),
    'points': _points(success, result, folder),
    **{k: result[k] for k in ('kept', 'tasks', 'tasks_kept') if k in result},
    'config_hash': result['config_hash'],
  }


def _tokens(stage, result, folder) -> int | None:
  if stage['entry'] == 'launch.sample':
    return result['sampled_tokens']
  strategy = stage['config']['rollout']['strategy']
  if stage['entry'] == 'launch.merge' or _WRITTEN.fullmatch(strategy):
    return 0
  if strategy.startswith('retrospective.'):
    return None  # what was sampled is off the mask
  return round(sum(map(metrics.sampled_tokens, metrics.read(folder))))


def _points(success, result, folder) -> list[list[float]]:
  """(share of the steps done, success) of a stage that changes the policy."""
  if success['after'] is None:
    return []
  seen = []
  if (folder / metrics.FILE).exists():
    seen = [
      [row['step'] / result['steps'], row['eval/sampled']]
      for row in metrics.read(folder)
      if 'eval/sampled' in row and row['step'] < result['steps']
    ]
  return [[0.0, success['before']], *seen, [1.0, success['after']]]


def _write(root, name, rows: Sequence[dict], stages: Sequence[str]) -> None:
  known = [row['sampled_tokens'] for row in rows]
  whole = {
    'name': name,
    'finished': len(rows) == len(stages),
    'seconds': round(sum(row['seconds'] for row in rows), 1),
    'sampled_tokens': None if None in known else sum(known),
    'stages': rows,
  }
  text = json.dumps(whole, indent=2) + '\n'
  (root / 'pipeline.json').write_text(text, encoding='utf-8')
  parts = [picture.Part(row['name'], _note(row), row['points']) for row in rows]
  picture.draw(parts, name, root / 'pipeline.png')


def _note(row: Mapping[str, Any]) -> str:
  tokens = row['sampled_tokens']
  cost = f'\n{tokens / 1000:,.0f}k tokens' if tokens else ''
  return f'{row["seconds"]:.0f} s{cost}'


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  run(flags.FLAGS.config, flags.FLAGS.workdir)


def define() -> None:
  """Defines the flags."""
  start.define_config('config', 'The pipeline: FILE.py or FILE.py:ARGUMENT.')
  flags.DEFINE_string(
    'workdir', None, 'Where all is written, and gone on from.'
  )


if __name__ == '__main__':
  start.run(main, define, required=('config', 'workdir'))
