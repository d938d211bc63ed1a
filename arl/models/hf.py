"""Hugging Face model folders: config.json and safetensors, read and written.

Strict both ways: every tensor is used once, none is missing, made up, reshaped
or cast unless the caller names a dtype. Tokenizer files are saved by
`arl.models.tokenizers`.
"""

import collections
import itertools
import json
import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from arl.models import (
  functional,
  hf_config,
  hf_files,
  hf_place,
  sizes,
  transformer,
)

Path = str | os.PathLike[str]
_HEAD, _EMBED = 'lm_head.weight', 'model.embed_tokens.weight'
_PARTS = {
  'attention': 'self_attn',
  'attention_norm': 'input_layernorm',
  'mlp_norm': 'post_attention_layernorm',
  'query': 'q_proj',
  'key': 'k_proj',
  'value': 'v_proj',
  'out': 'o_proj',
  'query_norm': 'q_norm',
  'key_norm': 'k_norm',
  'gate': 'gate_proj',
  'up': 'up_proj',
  'down': 'down_proj',
  'kernel': 'weight',
  'scale': 'weight',
  'router': 'gate',
}


class Loaded(NamedTuple):
  """A model, its parameters and its sizes."""

  model: functional.Model
  params: functional.Params
  sizes: sizes.Sizes


def read_config(folder: Path) -> sizes.Sizes:
  """The sizes that a folder's config.json describes; see hf_config.to_sizes."""
  file = pathlib.Path(folder) / 'config.json'
  if not file.is_file():
    raise ValueError(
      f'{folder} has no config.json; give the folder of a Hugging Face model.'
    )
  return hf_config.to_sizes(json.loads(file.read_text('utf-8')))


def load(
  folder: Path,
  *,
  dtype: str = 'float32',
  cast: str | None = None,
  remat: str = 'none',
  place: hf_place.Place | None = None,
) -> Loaded:
  """Loads a model folder, one tensor at a time.

  A tied model may repeat its embedding as a head, bit for bit; a head that
  differs is an error, and so is an untied model without one.

  Args:
    folder: holds config.json and model.safetensors, or shards and their index.
    dtype: what the model computes in.
    cast: what to keep the parameters in; None for what the file holds.
    remat: see `transformer.make`.
    place: see `from_tensors`.

  Raises:
    ValueError: a config that is not implemented, or tensors that do not fit it.
  """
  size = read_config(folder)
  found = hf_files.find(pathlib.Path(folder))
  params = from_tensors(found, size, cast, place)
  return Loaded(transformer.make(size, dtype, remat), params, size)


def from_tensors(
  tensors: Mapping[str, hf_place.Tensor],
  size: sizes.Sizes,
  cast: str | None = None,
  place: hf_place.Place | None = None,
) -> functional.Params:
  """Params from tensors by their Hugging Face names, matrices [out, in].

  Args:
    tensors: arrays, or tensors of a file. Of those no more is read than the
      devices of this process hold, and one parameter at a time.
    size: the sizes of the model.
    cast: what to keep the parameters in; None for what the tensors are.
    place: where on a mesh each parameter lies; None for the first device.

  Raises:
    ValueError: a tensor is missing, extra, of another shape, or no float of 16
      or 32 bits.
  """
  leaves, tensors = _leaves(size), dict(tensors)
  if size.tied and _HEAD in tensors:
    _check_repeated(tensors.pop(_HEAD), tensors.get(_EMBED))
  missing = sorted(leaves.keys() - tensors.keys())
  extra = sorted(tensors.keys() - leaves.keys())
  if missing or extra:
    raise ValueError(
      f'the tensors do not fit the config: missing {missing[:5]} '
      f'({len(missing)}), extra {extra[:5]} ({len(extra)}); check '
      'model_type, tie_word_embeddings and the biases in config.json.'
    )
  for name, leaf in leaves.items():
    _check_fits(name, tensors[name], leaf)
  params: dict[str, Any] = {}
  path_of = lambda item: item[1].path
  for path, group in itertools.groupby(leaves.items(), path_of):
    pieces = [(tensors.pop(name), leaf) for name, leaf in group]
    node = params
    for key in path[:-1]:
      node = node.setdefault(key, {})
    node[path[-1]] = hf_place.parameter(path, pieces, cast, place)
  return params


def _check_fits(name, tensor, leaf) -> None:
  good = tensor.dtype in hf_files.DTYPES.values()
  if tensor.shape != leaf.shape or not good:
    raise ValueError(
      f'tensor {name} is {tensor.dtype} {tensor.shape}, but the config wants '
      f'{leaf.shape} of a float of 16 or 32 bits; the file is of another '
      'model or quantized.'
    )


def save(
  folder: Path,
  params: functional.Params,
  size: sizes.Sizes,
  *,
  dtype: str | None = None,
  max_bytes: int = 5 * 10**9,
) -> None:
  """Writes a model folder, which appears under its name only when complete.

  Args:
    folder: must not exist yet.
    params: of a model of these sizes, without a value head.
    size: the sizes.
    dtype: what to write; None for what the params are, which must be one.
    max_bytes: of tensors in a file; beyond it the model is sharded.

  Raises:
    FileExistsError: the folder exists.
    ValueError: params that do not fit the sizes or are of several dtypes.
  """
  folder = pathlib.Path(folder)
  if folder.exists():
    raise FileExistsError(
      f'{folder} exists; choose another folder, or remove it first.'
    )
  tensors = _flat(params, size)
  kind = _one_dtype(tensors, dtype)
  config = hf_config.from_sizes(size, str(kind))
  partial = folder.with_name(f'.{folder.name}.{os.getpid()}.partial')
  partial.mkdir(parents=True)
  try:
    hf_files.write_json(partial / 'config.json', config)
    hf_files.write(partial, tensors, kind, max_bytes)
    partial.rename(folder)
  except BaseException:
    shutil.rmtree(partial)
    raise


def _leaves(size: sizes.Sizes) -> dict[str, hf_place.Leaf]:
  """Every tensor of a model of these sizes by its Hugging Face name."""
  abstract = jax.eval_shape(transformer.make(size).init, jax.random.key(0))
  leaves = {}
  for keys, leaf in jax.tree_util.tree_leaves_with_path(abstract):
    path = tuple(key.key for key in keys)
    if 'experts' in path:
      for e in range(leaf.shape[0]):
        shape = leaf.shape[:0:-1]
        leaves[_name(path, e)] = hf_place.Leaf(path, (e,), shape, turned=True)
      continue
    turned = path[-1] == 'kernel'
    shape = leaf.shape[::-1] if turned else leaf.shape
    leaves[_name(path)] = hf_place.Leaf(path, (), shape, turned)
  return leaves


def module_name(path: str) -> str:
  """What Hugging Face calls a projection of ours: 'layers/3/mlp/up'."""
  return _name((*path.split('/'), 'kernel')).removesuffix('.weight')


def _name(path: tuple[str, ...], expert: int | None = None) -> str:
  if path[0] in ('embed', 'head'):
    return {'embed': _EMBED, 'head': _HEAD}[path[0]]
  names = ['model', *(_PARTS.get(part, part) for part in path)]
  if expert is not None:
    names[-1:] = [str(expert), names[-1], 'weight']
  return '.'.join(names)


def _flat(params: functional.Params, size: sizes.Sizes) -> hf_files.Tensors:
  """Leaves by Hugging Face name, and whether to turn them; strict."""
  given = {
    tuple(key.key for key in keys): leaf
    for keys, leaf in jax.tree_util.tree_leaves_with_path(params)
  }
  tensors: hf_files.Tensors = {}
  leaves = _leaves(size)
  stacked = collections.Counter(leaf.path for leaf in leaves.values())
  for name, leaf in leaves.items():
    array = given.get(leaf.path)
    shape = leaf.shape[::-1] if leaf.turned else leaf.shape
    if leaf.part:
      shape = stacked[leaf.path], *shape
    if array is None or array.shape != shape:
      raise ValueError(
        f'params at {"/".join(leaf.path)} are '
        f'{"missing" if array is None else array.shape}, but the sizes want '
        f'{shape}; save params with the sizes that made them.'
      )
    tensors[name] = hf_files.Piece(array, leaf.part, leaf.turned)
  extra = ['/'.join(path) for path in given if path not in stacked]
  if extra:
    raise ValueError(
      f'params hold {extra}, which a Hugging Face folder has no place for; '
      'drop them before saving.'
    )
  return tensors


def _one_dtype(tensors: hf_files.Tensors, dtype: str | None) -> np.dtype:
  kinds = (
    {jnp.dtype(dtype)}
    if dtype
    else {piece.array.dtype for piece in tensors.values()}
  )
  if len(kinds) != 1 or not kinds <= set(hf_files.DTYPES.values()):
    raise ValueError(
      f'a folder holds one float dtype of 16 or 32 bits, not '
      f'{sorted(map(str, kinds))}; name one: save(..., dtype=...).'
    )
  return kinds.pop()


def _check_repeated(
  head: hf_place.Tensor, embed: hf_place.Tensor | None
) -> None:
  if embed is None or not hf_place.same(head, embed):
    raise ValueError(
      f'config.json says tie_word_embeddings, but {_HEAD} in the file differs '
      f'from {_EMBED}; set the flag to false to use that head.'
    )
