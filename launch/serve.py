"""Serves a model: python launch/serve.py --model=FOLDER --port=N.

The embedded engine behind SGLang's HTTP contract: what users without a GPU,
TPU users, tests and notebooks talk to. It listens on loopback unless --host
says otherwise, and knows no passwords.

  python -m launch.serve --model=runs/quickstart/sft/final --port=30000
"""

import functools
import json
import pathlib
import sys
from typing import Any

import uvicorn
from absl import app, flags

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from arl.models import (
  cached,
  hf,
  hf_files,
  sizes,
  tokenizers,
  transformer,
)
from arl.rollout import continuous, server
from arl.rollout.server import state as server_state
from launch import start


def define() -> None:
  """Defines the flags."""
  flags.DEFINE_string('model', None, 'A Hugging Face model folder.')
  flags.DEFINE_integer('port', 30000, 'Where it listens.', 0)
  flags.DEFINE_string('host', '127.0.0.1', 'On which address.')
  flags.DEFINE_integer('slots', 64, 'The most sequences at once.', 1)
  flags.DEFINE_integer(
    'context', 0, "The longest sequence, in tokens; 0 for the model's.", 0
  )
  flags.DEFINE_integer('seed', 0, 'Of all randomness.', 0)
  flags.DEFINE_integer('max_queue', 4096, 'The most that wait.', 0)
  flags.DEFINE_string('dtype', 'float32', 'What it computes in.')
  flags.DEFINE_enum(
    'cache', '', cached.KINDS, "What it keeps of keys and values; '' for all."
  )
  flags.DEFINE_string('weight_version', '0', 'The name of the first weights.')
  flags.DEFINE_bool('skip_tokenizer_init', False, 'Speak in ids only.')


def load_weights(size: sizes.Sizes, folder: str) -> Any:
  """The weights in a folder, by names that have to be those of the model.

  Raises:
    ValueError: they do not fit.
  """
  path = pathlib.Path(folder)
  if not path.is_dir():
    raise ValueError(f'{folder} is no folder; give one with safetensors.')
  if (path / 'config.json').is_file() and hf.read_config(path) != size:
    raise ValueError(
      f'{folder} has a config.json of another model than the one served.'
    )
  return hf.from_tensors(hf_files.read(path), size)


def end_ids(folder: str, tokenizer: Any) -> tuple[int, ...]:
  """The ids that end a sample: those of the configs and of the tokenizer."""
  found: set[int] = set()
  for name in ('config.json', 'generation_config.json'):
    path = pathlib.Path(folder) / name
    if path.is_file():
      told = json.loads(path.read_text('utf-8'))
      ids = told.get('eos_token_id')
      found |= set(ids if isinstance(ids, list) else [ids])
  if tokenizer is not None:
    found.add(tokenizer.eos_token_id)
  return tuple(sorted(found - {None}))


def serving(
  folder: str,
  *,
  slots: int,
  context: int,
  seed: int,
  max_queue: int,
  dtype: str = 'float32',
  cache: str = '',
  version: str = '0',
  ids_only: bool = False,
) -> server_state.Serving:
  """The state of a server of a model folder.

  Raises:
    ValueError: the folder, or a context that the model was not made for.
  """
  loaded = hf.load(folder, dtype=dtype)
  tokenizer = None
  if not ids_only:
    tokenizer = tokenizers.load(folder)
    tokenizers.check_vocab(tokenizer, loaded.sizes.vocab)
  made = continuous.ContinuousEngine(
    transformer.make(loaded.sizes, dtype, cache=cache),
    loaded.params,
    slots=slots,
    context=context or loaded.sizes.context,
    seed=seed,
  )
  model = server_state.Model(
    folder=str(folder),
    family=loaded.sizes.family,
    params=loaded.params,
    load=functools.partial(load_weights, loaded.sizes),
    tokenizer=tokenizer,
    end=end_ids(folder, tokenizer),
  )
  return server_state.Serving(made, model, version=version, max_queue=max_queue)


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  given = flags.FLAGS
  state = serving(
    given.model,
    slots=given.slots,
    context=given.context,
    seed=given.seed,
    max_queue=given.max_queue,
    dtype=given.dtype,
    cache=given.cache,
    version=given.weight_version,
    ids_only=given.skip_tokenizer_init,
  )
  print(
    f'serving {given.model} on http://{given.host}:{given.port}', flush=True
  )
  # The engine's thread needs little of the interpreter, but needs it at once.
  sys.setswitchinterval(5e-4)
  uvicorn.run(
    server.make(state),
    host=given.host,
    port=given.port,
    log_level='warning',
    access_log=False,
    server_header=False,
    date_header=False,
    timeout_graceful_shutdown=2,
  )
  state.engine.close()


def run() -> None:
  start.run(main, define, required=('model',))


if __name__ == '__main__':
  run()
