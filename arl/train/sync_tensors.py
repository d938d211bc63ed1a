"""PyTorch tensors as SGLang reads them from a request, written without PyTorch.

The body of an update is the pickle of a list of (name, tensor). A tensor is
pickled as a call that rebuilds it from a storage, and a storage as the bytes of
torch.save in its older format. These are those opcodes, for arrays by value.
"""

import base64
import pickle
import struct
from collections.abc import Mapping

import numpy as np

# What opens a file in that format: its mark, and its version.
_MARK, _FORMAT = 0x1950A86A20F9469CFC6C, 1001
_MACHINE = {
  'protocol_version': _FORMAT,
  'little_endian': True,
  'type_sizes': {'short': 2, 'int': 4, 'long': 4},
}
_STORAGES = {
  'float32': 'FloatStorage',
  'float16': 'HalfStorage',
  'bfloat16': 'BFloat16Storage',
}
_PROTOCOL = pickle.PROTO + b'\x04'


def _text(value: str) -> bytes:
  data = value.encode()
  return pickle.BINUNICODE + struct.pack('<I', len(data)) + data


def _whole(value: int) -> bytes:
  return pickle.LONG1 + b'\x08' + struct.pack('<q', value)


def _data(value: bytes) -> bytes:
  return pickle.BINBYTES8 + struct.pack('<Q', len(value)) + value


def _tuple(*values: bytes) -> bytes:
  return pickle.MARK + b''.join(values) + pickle.TUPLE


def _named(module: str, name: str) -> bytes:
  return pickle.GLOBAL + f'{module}\n{name}\n'.encode()


def _call(module: str, name: str, *values: bytes) -> bytes:
  return _named(module, name) + _tuple(*values) + pickle.REDUCE


def _storage(array: np.ndarray) -> bytes:
  """The file that torch.save would make of an array's storage."""
  kind = _STORAGES[array.dtype.name]
  described = _tuple(
    _text('storage'), _named('torch', kind), _text('0'), _text('cpu'),
    _whole(array.size), pickle.NONE,
  )  # fmt: skip
  head = [pickle.dumps(x, 2) for x in (_MARK, _FORMAT, _MACHINE)]
  body = _PROTOCOL + described + pickle.BINPERSID + pickle.STOP
  keys = pickle.dumps(['0'], 2)
  count = struct.pack('<q', array.size)
  return b''.join([*head, body, keys, count, array.tobytes()])


def _tensor(array: np.ndarray) -> bytes:
  array = np.ascontiguousarray(array)
  storage = _call('torch.storage', '_load_from_bytes', _data(_storage(array)))
  strides = (stride // array.itemsize for stride in array.strides)
  return _call(
    'torch._utils',
    '_rebuild_tensor_v2',
    storage,
    _whole(0),
    _tuple(*map(_whole, array.shape)),
    _tuple(*map(_whole, strides)),
    pickle.NEWFALSE,
    _call('collections', 'OrderedDict'),
  )


def encode(tensors: Mapping[str, np.ndarray]) -> str:
  """The tensors of an update, base64.

  Args:
    tensors: by name, each of a float of 16 or 32 bits.
  """
  pairs = [_tuple(_text(name), _tensor(x)) for name, x in tensors.items()]
  listed = pickle.EMPTY_LIST + pickle.MARK + b''.join(pairs) + pickle.APPENDS
  return base64.b64encode(_PROTOCOL + listed + pickle.STOP).decode()
