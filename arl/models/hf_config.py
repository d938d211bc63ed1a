"""Hugging Face config.json <-> Sizes.

Strict: a setting that would change the forward pass and is not implemented is
an error, never ignored.
"""

from collections.abc import Mapping
from typing import Any

from arl.models import rope, sizes

Config = Mapping[str, Any]

# Settings that leave the forward pass alone.
_HARMLESS = frozenset(
  {
    '_attn_implementation',
    '_name_or_path',
    'architectures',
    'attention_dropout',
    'bos_token_id',
    'dtype',
    'eos_token_id',
    'id2label',
    'initializer_range',
    'is_llama_config',
    'label2id',
    'max_window_layers',
    'output_attentions',
    'output_hidden_states',
    'pad_token_id',
    'pretraining_tp',
    'problem_type',
    'return_dict',
    'sliding_window',
    'torch_dtype',
    'transformers.js_config',
    'transformers_version',
    'use_cache',
  }
)
_READ = frozenset(
  {
    'attention_bias',
    'head_dim',
    'hidden_act',
    'hidden_size',
    'intermediate_size',
    'layer_types',
    'max_position_embeddings',
    'mlp_bias',
    'model_type',
    'num_attention_heads',
    'num_hidden_layers',
    'num_key_value_heads',
    'partial_rotary_factor',
    'rms_norm_eps',
    'rope_parameters',
    'rope_scaling',
    'rope_theta',
    'text_config',
    'tie_word_embeddings',
    'use_sliding_window',
    'vocab_size',
  }
)
_MODELS = {
  'llama': 'LlamaForCausalLM',
  'qwen2': 'Qwen2ForCausalLM',
  'qwen3': 'Qwen3ForCausalLM',
}


def to_sizes(config: Config) -> sizes.Sizes:
  """Reads a parsed config.json.

  A nested text_config speaks first and must not contradict the top. Where a key
  may be absent its published default holds: no biases, no tying, theta 10,000,
  for llama as many key heads as query heads, and for llama and qwen2 heads that
  divide the width.

  Raises:
    ValueError: an unknown model or rope type, a setting that is not
      implemented or not known, or a key that is missing.
  """
  config = _flatten(config)
  family = config.get('model_type')
  if family not in sizes.FAMILIES:
    raise ValueError(
      f'config.json has model_type {family!r}, but arl implements '
      f'{list(sizes.FAMILIES)}; convert the model or choose another.'
    )
  _refuse(config, family)
  need = lambda key: _need(config, key)
  heads = need('num_attention_heads')
  biased = bool(config.get('attention_bias', False))
  kv_heads, head_dim = config.get('num_key_value_heads'), config.get('head_dim')
  if kv_heads is None:
    kv_heads = heads if family == 'llama' else need('num_key_value_heads')
  if head_dim is None:
    divided = family != 'qwen3'
    head_dim = need('hidden_size') // heads if divided else need('head_dim')
  return sizes.Sizes(
    vocab=need('vocab_size'),
    width=need('hidden_size'),
    layers=need('num_hidden_layers'),
    heads=heads,
    kv_heads=kv_heads,
    head_dim=head_dim,
    mlp_width=need('intermediate_size'),
    rope=_rope(config),
    norm_eps=need('rms_norm_eps'),
    tied=bool(config.get('tie_word_embeddings', False)),
    qkv_bias=biased or family == 'qwen2',
    out_bias=biased and family != 'qwen2',
    qk_norm=family == 'qwen3',
    context=need('max_position_embeddings'),
    family=family,
  )


def from_sizes(size: sizes.Sizes, dtype: str) -> dict[str, Any]:
  """The config.json of a model whose tensors are of `dtype`.

  Raises:
    ValueError: the family cannot express the sizes.
  """
  scaling = {
    'rope_type': size.rope.type,
    **{name: getattr(size.rope, name) for name in rope.FIELDS[size.rope.type]},
  }
  scaling = {name: v for name, v in scaling.items() if v is not None}
  config: dict[str, Any] = {
    'architectures': [_MODELS[size.family]],
    'model_type': size.family,
    'dtype': dtype,
    'vocab_size': size.vocab,
    'hidden_size': size.width,
    'intermediate_size': size.mlp_width,
    'num_hidden_layers': size.layers,
    'num_attention_heads': size.heads,
    'num_key_value_heads': size.kv_heads,
    'head_dim': size.head_dim,
    'hidden_act': 'silu',
    'max_position_embeddings': size.context,
    'rms_norm_eps': size.norm_eps,
    # Both spellings: readers of each would take a default for the other.
    'rope_theta': size.rope.theta,
    'rope_scaling': None if size.rope.type == 'default' else scaling,
    'rope_parameters': {'rope_theta': size.rope.theta, **scaling},
    'tie_word_embeddings': size.tied,
    # The tokenizer says these; left out, llama would read 1 and 2.
    'bos_token_id': None,
    'eos_token_id': None,
  }
  if size.family != 'qwen2':
    config['attention_bias'] = size.qkv_bias
  back = to_sizes(config)
  if back != size:
    wrong = [k for k, v in size._asdict().items() if getattr(back, k) != v]
    raise ValueError(
      f'a config.json of family {size.family!r} cannot say {wrong} of these '
      'sizes; save them under another Sizes.family.'
    )
  return config


def _flatten(config: Config) -> dict[str, Any]:
  """The top and its text_config as one level."""
  text = config.get('text_config') or {}
  for key in text.keys() & config.keys() & (_READ | {'text_config'}):
    if text[key] != config[key]:
      raise ValueError(
        f'config.json says {key} = {config[key]!r} and text_config.{key} = '
        f'{text[key]!r}; make them agree.'
      )
  return {k: v for k, v in {**config, **text}.items() if k != 'text_config'}


def _need(config: Config, key: str) -> Any:
  if config.get(key) is None:
    raise ValueError(
      f'config.json lacks {key!r}, which this model type needs; add it.'
    )
  return config[key]


def _refuse(config: Config, family: str) -> None:
  """Raises where the config asks for what is not implemented."""
  for key, value in config.items():
    if value and key not in _HARMLESS | _READ:
      raise ValueError(
        f'config.json has {key} = {value!r}, which arl does not implement; '
        'remove it if it does not change the forward pass.'
      )
  if family == 'llama' and config.get('sliding_window') is not None:
    _unimplemented('sliding_window', config)
  layers = _need(config, 'num_hidden_layers')
  kinds = config.get('layer_types')
  sliding = (
    config.get('use_sliding_window')
    and config.get('sliding_window') is not None
    and config.get('max_window_layers', 0) < layers
  )
  if kinds is None and sliding:
    _unimplemented('use_sliding_window', config)
  if kinds is not None and list(kinds) != ['full_attention'] * layers:
    _unimplemented('layer_types', config)
  if config.get('hidden_act', 'silu') != 'silu':
    _unimplemented('hidden_act', config)
  if config.get('mlp_bias'):
    _unimplemented('mlp_bias', config)


def _unimplemented(key: str, config: Config) -> None:
  raise ValueError(
    f'config.json has {key} = {config[key]!r}, but arl implements full '
    'attention and silu MLPs without bias; choose another model.'
  )


def _rope(config: Config) -> sizes.Rope:
  """Rotary settings in either spelling; of both, they must agree."""
  found = {}
  if config.get('rope_parameters') is not None:
    found['rope_parameters'] = _spelled(dict(config['rope_parameters']), config)
  if config.get('rope_scaling') is not None or not found:
    found['rope_scaling'] = _spelled(
      dict(config.get('rope_scaling') or {}), config
    )
  first, *others = found.values()
  if any(other != first for other in others):
    raise ValueError(
      f'config.json has rope_scaling = {config["rope_scaling"]!r} and '
      f'rope_parameters = {config["rope_parameters"]!r}; make them agree.'
    )
  return first


def _spelled(given: dict[str, Any], config: Config) -> sizes.Rope:
  """One dict of rotary settings, every key of it read."""
  alias, kind = given.pop('type', None), given.pop('rope_type', None)
  kind = kind or alias or 'default'
  if (alias or kind) != kind or kind not in rope.FIELDS:
    raise ValueError(
      f'config.json has rope type {alias or kind!r}, but arl implements '
      f'{list(rope.FIELDS)}; choose another model.'
    )
  top = config.get('rope_theta')
  theta = given.pop('rope_theta', None) or top or 10_000.0
  partial = given.pop('partial_rotary_factor', None)
  partial = partial or config.get('partial_rotary_factor') or 1.0
  fields = rope.FIELDS[kind]
  unread = sorted(
    k for k, v in given.items() if k not in fields and v is not None
  )
  if unread or partial != 1.0 or top not in (None, theta):
    raise ValueError(
      f'config.json has rope settings {given!r}, theta {top!r} and {theta!r}, '
      f'partial_rotary_factor {partial!r}; of type {kind!r} arl reads only '
      f'{["rope_theta", *fields]}, once, over whole heads.'
    )
  for key in fields if kind != 'yarn' else fields[:2]:
    if given.get(key) is None:
      raise ValueError(f'rope type {kind!r} needs {key!r} in config.json.')
  settings = {k: v for k, v in given.items() if v is not None}
  return sizes.Rope(float(theta), kind, **settings)
