"""The safetensors of a model folder: one file, or shards and their index."""

import json
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

DTYPES = {
  'F32': np.dtype(np.float32),
  'F16': np.dtype(np.float16),
  'BF16': np.dtype(ml_dtypes.bfloat16),
}
_SINGLE = 'model.safetensors'
_INDEX = 'model.safetensors.index.json'


class Piece(NamedTuple):
  """What becomes a tensor of a file.

  Attributes:
    array: a parameter.
    part: which: () for all, (e,) for one of several stacked.
    turned: whether the file holds the transpose.
  """

  array: jax.Array
  part: tuple[int, ...]
  turned: bool

  @property
  def size(self) -> int:
    return math.prod(self.array.shape[len(self.part) :])


Tensors = dict[str, Piece]


def read(folder: pathlib.Path) -> dict[str, np.ndarray]:
  """All tensors of a folder, each of one of DTYPES.

  Raises:
    ValueError: a file is absent, of another dtype, or not what the index says.
  """
  if (folder / _INDEX).is_file():
    index = json.loads((folder / _INDEX).read_text('utf-8'))['weight_map']
    tensors: dict[str, np.ndarray] = {}
    for file in sorted(set(index.values())):
      found = _read_file(folder / file)
      listed = {name for name, where in index.items() if where == file}
      if found.keys() != listed:
        raise ValueError(
          f'{file} and {_INDEX} disagree about '
          f'{sorted(found.keys() ^ listed)[:5]}; fetch the folder again.'
        )
      tensors |= found
    return tensors
  return _read_file(folder / _SINGLE)


def _read_file(file: pathlib.Path) -> dict[str, np.ndarray]:
  if not file.is_file():
    raise ValueError(f'{file} does not exist; fetch the folder again.')
  with safetensors.safe_open(file, framework='np') as opened:
    for name in opened.keys():  # noqa: SIM118, it is no dict
      kind = opened.get_slice(name).get_dtype()
      if kind not in DTYPES:
        raise ValueError(
          f'tensor {name} is of dtype {kind}, but arl reads {list(DTYPES)}; '
          'dequantize the checkpoint first.'
        )
    return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118


def write(
  folder: pathlib.Path, tensors: Tensors, kind: np.dtype, max_bytes: int
) -> None:
  """Writes tensors as `kind`, in files of at most max_bytes or one tensor."""
  shards = list(_shards(tensors, kind.itemsize, max_bytes))
  index = {}
  for number, names in enumerate(shards, 1):
    file = _SINGLE
    if len(shards) > 1:
      file = f'model-{number:05}-of-{len(shards):05}.safetensors'
    arrays = {}
    for name in names:
      piece = tensors[name]
      host = np.asarray(piece.array[piece.part]).astype(kind)
      # The library writes the buffer as it lies, whatever the strides say.
      arrays[name] = np.ascontiguousarray(host.T if piece.turned else host)
      index[name] = file
    safetensors.numpy.save_file(arrays, folder / file, {'format': 'pt'})
    # The library writes for the owner only; follow the folder, so the umask.
    (folder / file).chmod(folder.stat().st_mode & 0o666)
  if len(shards) > 1:
    total = sum(piece.size * kind.itemsize for piece in tensors.values())
    meta = {'metadata': {'total_size': total}, 'weight_map': index}
    write_json(folder / _INDEX, meta)


def _shards(
  tensors: Tensors, itemsize: int, max_bytes: int
) -> Iterator[list[str]]:
  """Names by file, in order."""
  names: list[str] = []
  room = max_bytes
  for name, piece in tensors.items():
    size = piece.size * itemsize
    if names and size > room:
      yield names
      names, room = [], max_bytes
    names.append(name)
    room -= size
  yield names


def write_json(file: pathlib.Path, content: Mapping[str, Any]) -> None:
  file.write_text(json.dumps(content, indent=2) + '\n', 'utf-8')
