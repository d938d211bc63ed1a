"""A config out of a JSON file, for a stage: launch/stage.py:DIR/config.json."""

import json
import pathlib

import ml_collections


def get_config(arg: str | None = None) -> ml_collections.ConfigDict:
  """The config that a file holds, as `launch.pipeline` wrote it.

  Raises:
    ValueError: no file is named, or there is none.
  """
  path = pathlib.Path(arg or '')
  if not path.is_file():
    raise ValueError(f'config argument {arg!r}: give the path of a JSON file.')
  return ml_collections.ConfigDict(json.loads(path.read_text('utf-8')))
