"""Episodes as JSON and back, every bit of them."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from arl import episode

_COLUMNS = ('tokens', 'mask', 'logp', 'rewards', 'turn')


def to_json(one: episode.Episode) -> dict[str, Any]:
  """An episode as JSON; its arrays as bytes, so that nothing is rounded."""
  return {
    'task': episode.task_to_json(one.task),
    'sample': one.sample,
    'status': one.status,
    'error': one.error,
    'row': one.row,
    'columns': {name: packed(getattr(one, name)) for name in _COLUMNS},
    'extras': {name: packed(x) for name, x in one.extras.items()},
    'exchanges': [
      [each.action, list(each.turn), each.anchor] for each in one.exchanges
    ],
  }


def from_json(made: Mapping[str, Any]) -> episode.Episode:
  """The episode that `to_json` wrote."""
  return episode.Episode(
    task=episode.task_from_json(made['task']),
    sample=made['sample'],
    status=made['status'],
    error=made['error'],
    row=made['row'],
    exchanges=tuple(
      episode.Exchange(action, episode.Turn(*turn), anchor)
      for action, turn, anchor in made['exchanges']
    ),
    extras={name: unpacked(x) for name, x in made['extras'].items()},
    **{name: unpacked(made['columns'][name]) for name in _COLUMNS},
  )


def packed(x: Any) -> list:
  """An array as JSON: its dtype, shape and bytes."""
  array = np.asarray(x)
  data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
  return [array.dtype.str, list(array.shape), data]


def unpacked(made: list) -> np.ndarray:
  """The array that `packed` wrote."""
  kind, shape, data = made
  flat = np.frombuffer(base64.b64decode(data), np.dtype(kind))
  return flat.reshape(shape).copy()
