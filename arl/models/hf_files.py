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


class Stored:
  """A tensor that lies in a file; slices of it are read when they are asked.

  Attributes:
    shape: of the tensor.
    dtype: of the tensor.
  """

  def __init__(self, file: Any, name: str, kind: np.dtype):
    self._slice = file.get_slice(name)
    self.shape, self.dtype = tuple(self._slice.get_shape()), kind

  def __getitem__(self, index: tuple[slice, ...]) -> np.ndarray:
    return self._slice[index]


def read(folder: pathlib.Path) -> dict[str, np.ndarray]:
  """All tensors of a folder, each of one of DTYPES.

  Raises:
    ValueError: as of `find`.
  """
  return {name: whole(tensor) for name, tensor in find(folder).items()}


def whole(tensor: Stored) -> np.ndarray:
  """All of a tensor."""
  return tensor[(slice(None),) * len(tensor.shape)]


def find(folder: pathlib.Path) -> dict[str, Stored]:
  """The tensors of a folder, each of one of DTYPES, none of them read yet.

  Raises:
    ValueError: a file is absent, of another dtype, or not what the index says.
  """
  if (folder / _INDEX).is_file():
    index = json.loads((folder / _INDEX).read_text('utf-8'))['weight_map']
    tensors: dict[str, Stored] = {}
    for file in sorted(set(index.values())):
      found = _find_in(folder / file)
      listed = {name for name, where in index.items() if where == file}
      if found.keys() != listed:
        raise ValueError(
          f'{file} and {_INDEX} disagree about '
          f'{sorted(found.keys() ^ listed)[:5]}; fetch the folder again.'
        )
      tensors |= found
    return tensors
  return _find_in(folder / _SINGLE)


def _find_in(file: pathlib.Path) -> dict[str, Stored]:
  if not file.is_file():
    raise ValueError(f'{file} does not exist; fetch the folder again.')
  # Open, that is mapped, for as long as one of its tensors is held.
  opened = safetensors.safe_open(file, framework='np')
  found = {}
  for name in opened.keys():  # noqa: SIM118, it is no dict
    kind = opened.get_slice(name).get_dtype()
    if kind not in DTYPES:
      raise ValueError(
        f'tensor {name} is of dtype {kind}, but arl reads {list(DTYPES)}; '
        'dequantize the checkpoint first.'
      )
    found[name] = Stored(opened, name, DTYPES[kind])
  return found


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
