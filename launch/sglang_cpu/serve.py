"""Starts an unmodified SGLang on a machine without a GPU; takes its flags.

SGLang imports GPU libraries wherever it runs, though on a CPU it calls nothing
of them. This puts stand-ins in their place and then runs sglang.launch_server.
It is a file, not a module: the server's processes import it anew, and so get
the stand-ins too. What it shows is the protocol and the mathematics, not how
SGLang performs. Made for the versions in requirements.txt.
"""

import importlib.machinery
import importlib.util
import os
import pathlib
import platform
import runpy
import sys
import types
from unittest import mock

# A first seeded request would spend a minute compiling.
os.environ.setdefault('TORCHDYNAMO_DISABLE', '1')
os.environ.setdefault('SGLANG_USE_CPU_ENGINE', '1')

import torch

_WORD = 0xFFFFFFFF
_LIBRARIES = []  # an operator lives as long as the object that made it


def _operators(namespace: str, kind: str) -> torch.library.Library:
  _LIBRARIES.append(torch.library.Library(namespace, kind))
  return _LIBRARIES[-1]


def _without_triton() -> None:
  """Installs the stand-in for triton that sglang has for Apple's machines."""
  site = pathlib.Path(torch.__file__).parents[1]
  file = site / 'sglang' / '_platform_stubs.py'
  spec = importlib.util.spec_from_file_location('_stubs', file)
  stubs = importlib.util.module_from_spec(spec)
  sys.modules['_stubs'] = stubs  # its dataclasses look themselves up
  spec.loader.exec_module(stubs)
  with (
    mock.patch.object(sys, 'platform', 'darwin'),
    mock.patch.object(platform, 'machine', lambda: 'arm64'),
    mock.patch.object(torch.backends.mps, 'is_available', lambda: True),
  ):
    stubs.install_platform_stubs()


def _without_torchvision() -> None:
  """Names the operators that torchvision registers fakes for at import."""
  library = _operators('torchvision', 'DEF')
  for name in ('nms', 'qnms'):
    library.define(f'{name}(Tensor dets, Tensor scores, float at) -> Tensor')


def _assign(rows, table, starts, ends, slots, width) -> None:
  """Writes the cache slots of new tokens into the rows of their requests."""
  del width
  at = 0
  for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist()):
    new = slots[at : at + end - start]
    table[row, start:end] = new.to(table.dtype)
    at += end - start


def _without_kernels() -> None:
  """A module sgl_kernel with the one function that plain PyTorch lacks."""
  module = types.ModuleType('sgl_kernel')
  module.__path__ = []
  module.__spec__ = importlib.machinery.ModuleSpec('sgl_kernel', None)
  module.assign_req_to_token_pool_cpu = _assign

  def lacking(name: str):
    if name.startswith('__'):
      raise AttributeError(name)

    def call(*args, **keywords):
      raise NotImplementedError(f'sgl_kernel.{name} needs a GPU')

    return call

  module.__getattr__ = lacking
  sys.modules['sgl_kernel'] = module


def _rotated(x, by: int):
  return ((x << by) | (x >> (32 - by))) & _WORD


def _murmur3(seeds, positions, columns):
  """MurmurHash3 of (seed, position) by row and column, 32 bits [B, V]."""
  seeds, places = seeds.to(torch.int64)[:, None], positions.to(torch.int64)
  state = torch.zeros_like(seeds)
  words = (seeds, seeds >> 32, places[:, None], columns.to(torch.int64)[None])
  for word in words:
    mixed = _rotated((word & _WORD) * 0xCC9E2D51 & _WORD, 15)
    state = _rotated(state ^ (mixed * 0x1B873593 & _WORD), 13)
    state = (state * 5 + 0xE6546B64) & _WORD
  state = state ^ (4 * len(words))
  for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
    state = (state ^ (state >> shift)) * factor & _WORD
  return (state ^ (state >> 16)).to(torch.uint32)


def _seeded() -> None:
  """Seeds of single requests, which need a hash and a flag that is for GPUs.

  The flag then asks for the seeds alone: the arithmetic stays as it is.
  """
  library = _operators('sgl_kernel', 'FRAGMENT')
  library.define(
    'murmur_hash32_cpu(Tensor seed, Tensor positions, Tensor col_indices)'
    ' -> Tensor'
  )
  library.impl('murmur_hash32_cpu', _murmur3, 'CPU')
  from sglang.srt import batch_invariant_ops
  from sglang.srt.arg_groups import choices

  choices.add_deterministic_attention_backend_choices(['torch_native'])
  choices.add_radix_supported_deterministic_attention_backend_choices(
    ['torch_native']
  )
  batch_invariant_ops.enable_batch_invariant_mode = lambda *args, **kw: None


def _with_experts() -> None:
  """The buffer of the experts chosen, without pinned memory."""
  from sglang.srt.mem_cache.pool_host import common

  def plain(dims, dtype, device, **keywords):
    del device, keywords
    return torch.empty(dims, dtype=dtype)

  common.ALLOC_MEMORY_FUNCS['cpu'] = plain


_without_torchvision()
_without_triton()
_without_kernels()
_seeded()
_with_experts()

if __name__ == '__main__':
  runpy.run_module('sglang.launch_server', run_name='__main__')
