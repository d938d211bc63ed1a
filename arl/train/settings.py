"""The shape of a config: which keys there are, checked before any work.

A config writes out every key; nothing has a default in code. The blocks
`method`, `env` and `optimizer` name a function and hold its keyword arguments,
which that function itself checks.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import ml_collections

from arl import names

FREE = None  # a block whose keys belong to the function that it names
BLOCKS: frozenset = frozenset()  # any number of those, by column
TRAIN = {
  'seed': int,
  'steps': int,
  'model': {
    'path': str,
    'size': str,
    'dtype': str,
    'remat': str,
    'logit_chunk': int,
    'teacher': str,
    'average': float,
    'critic': str,
    'value_bins': int,
    'lora': {'rank': int, 'alpha': float, 'targets': str},
  },
  'knobs': BLOCKS,
  'method': FREE,
  'env': FREE,
  'reward': {'cap': float, 'terms': BLOCKS},
  'engine': {
    'make': str,
    'slots': int,
    'dtype': str,
    'cache': str,
    'urls': str,
    'sync': str,
    'folder': str,
    'pause': str,
    'tolerance': float,
  },
  'rollout': {
    'strategy': str,
    'max_turns': int,
    'turn_tokens': int,
    'response_tokens': int,
    'budget': int,
    'seconds': float,
    'context': int,
    'temperature': float,
    'top_p': float,
    'top_k': int,
    'stop_text': str,
    'observation_role': str,
    'reconsidering': str,
    'max_failed': float,
    'lag': int,
    'ahead': int,
    'window': int,
  },
  'prompts': {
    'size': int,
    'batch': int,
    'samples': int,
    'choose': FREE,
    'rounds': int,
    'max_age': int,
    'in_flight': int,
    'select': str,
    'scale': float,
    'least_spread': float,
    'replay': FREE,
  },
  'updates': {
    'epochs': int,
    'per_batch': int,
    'microbatch': int,
    'frozen': str,
    'routing': str,
    'prefixes': str,
    'qk_clip': float,
    'max_nonfinite': int,
  },
  'optimizer': FREE,
  'mesh': {
    'data': int,
    'fsdp': int,
    'expert': int,
    'context': int,
    'tensor': int,
    'rules': str,
  },
  'eval': {
    'strategy': str,
    'every': int,
    'crossed': int,
    'tasks': int,
    'final_tasks': int,
  },
  'checkpoint': {'every': int, 'keep': int},
}
_OTHERS = {'stages': 'launch.pipeline', 'ranking': 'launch.corlhf'}
_MAY_CHANGE = (
  'steps',
  'eval.every',
  'checkpoint',
  'engine.slots',
  'engine.urls',
  'engine.folder',
)


def check(config: ml_collections.ConfigDict, schema: dict) -> None:
  """Refuses a config with a key that is missing, unknown or of another type.

  Raises:
    ValueError, TypeError: naming the key, and for an unknown one the nearest.
  """
  for key, command in _OTHERS.items():
    if key in config and key not in schema:
      raise ValueError(
        f'config.{key} belongs to another command; run python -m {command}.'
      )
  _check_block('config', config.to_dict(), schema)


def _check_block(where: str, block: Any, schema: dict) -> None:
  if not isinstance(block, dict):
    raise TypeError(f'{where} is {block!r}; it must be a block of settings.')
  for key in block:
    if key not in schema:
      raise ValueError(
        f'{where} has no key {key!r}{names.suggest(key, schema)}'
      )
  for key, kind in schema.items():
    if key not in block:
      raise ValueError(f'{where}.{key} is missing; write it out.')
    value = block[key]
    if isinstance(kind, dict):
      _check_block(f'{where}.{key}', value, kind)
    elif kind is BLOCKS:
      _check_block(f'{where}.{key}', value, dict.fromkeys(value, FREE))
    elif kind is FREE:
      if not isinstance(value, dict) or 'name' not in value:
        raise ValueError(f'{where}.{key} needs a name: the function it means.')
    elif type(value) is not kind and not (kind is float and type(value) is int):
      raise TypeError(
        f'{where}.{key} is {value!r}; it must be a {kind.__name__}.'
      )


def to_json(config: ml_collections.ConfigDict) -> str:
  """The config as sorted JSON."""
  return json.dumps(config.to_dict(), sort_keys=True, indent=2)


def digest(config: ml_collections.ConfigDict) -> str:
  """Twelve hex digits that stand for the whole config."""
  return hashlib.sha256(to_json(config).encode()).hexdigest()[:12]


def check_resumes(
  config: ml_collections.ConfigDict, model: str, meta: Mapping[str, Any]
) -> None:
  """Refuses to resume under settings that would make another run of it.

  How often the run is evaluated, its checkpoints, the slots of the engine and
  where its servers are may change, and so may the number of steps, down to
  those done.

  Args:
    config: of now.
    model: the fingerprint of the parameters that it starts from.
    meta: the facts of the checkpoint: its `config`, as `to_json` wrote it, its
      `step`, and the fingerprint of its `model`.

  Raises:
    ValueError: naming the settings that differ.
  """
  before, now = json.loads(meta['config']), json.loads(to_json(config))
  differ = changes(before, now, but=_MAY_CHANGE)
  if differ:
    raise ValueError(
      'the workdir holds a run with other settings'
      f' ({"; ".join(differ)}); choose another workdir, or the settings it has.'
    )
  if meta['model'] != model:
    raise ValueError(
      f'the workdir holds a run that started from other weights'
      f' ({meta["model"]} -> {model}); put the model it started from back into'
      ' config.model.path, or choose another workdir.'
    )
  if meta['step'] > config.steps:
    raise ValueError(
      f'config.steps is {config.steps}, but the workdir holds a checkpoint of'
      f' step {meta["step"]}; choose another workdir, or so many at least.'
    )


def changes(
  before: Mapping[str, Any], now: Mapping[str, Any], but: tuple[str, ...] = ()
) -> list[str]:
  """What differs between nested settings, each as 'dotted.name: old -> new'.

  Args:
    before: the old ones.
    now: the new ones.
    but: how names begin that do not count.
  """
  old, new = _flat(before), _flat(now)
  pairs = {
    key: (old.get(key, 'absent'), new.get(key, 'absent'))
    for key in sorted(old.keys() | new.keys())
    if not key.startswith(but)
  }
  return [f'{key}: {b} -> {n}' for key, (b, n) in pairs.items() if b != n]


def _flat(block: Mapping[str, Any], where: str = '') -> dict[str, Any]:
  """Nested settings by their dotted names."""
  made: dict[str, Any] = {}
  for key, value in block.items():
    if isinstance(value, Mapping):
      made |= _flat(value, f'{where}{key}.')
    else:
      made[f'{where}{key}'] = value
  return made
