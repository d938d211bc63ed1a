"""Hugging Face config.json <-> Sizes.

Strict: a setting that would change the forward pass and is not implemented is
an error, never ignored.
"""

from collections.abc import Mapping
from typing import Any

from arl.models import hf_rope, sizes

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
    'output_router_logits',
    'pad_token_id',
    'pretraining_tp',
    'problem_type',
    'return_dict',
    'router_aux_loss_coef',
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
    'decoder_sparse_step',
    'head_dim',
    'hidden_act',
    'hidden_size',
    'intermediate_size',
    'layer_types',
    'max_position_embeddings',
    'mlp_bias',
    'mlp_only_layers',
    'model_type',
    'moe_intermediate_size',
    'norm_topk_prob',
    'num_attention_heads',
    'num_experts',
    'num_experts_per_tok',
    'num_hidden_layers',
    'num_key_value_heads',
    'num_local_experts',
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
  'qwen3_moe': 'Qwen3MoeForCausalLM',
}
# Keys that only a mixture of experts reads.
_MIXTURE = (
  'decoder_sparse_step',
  'mlp_only_layers',
  'moe_intermediate_size',
  'norm_topk_prob',
  'num_experts',
  'num_experts_per_tok',
  'num_local_experts',
)


def to_sizes(config: Config) -> sizes.Sizes:
  """Reads a parsed config.json.

  A nested text_config speaks first and must not contradict the top. Where a key
  may be absent its published default holds: no biases, no tying, theta 10,000,
  for llama as many key heads as query heads, and for llama and qwen2 heads that
  divide the width; for qwen3_moe experts in every layer, and weights of the
  chosen ones that are not normalized.

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
    divided = family in ('llama', 'qwen2')
    head_dim = need('hidden_size') // heads if divided else need('head_dim')
  return sizes.Sizes(
    vocab=need('vocab_size'),
    width=need('hidden_size'),
    layers=need('num_hidden_layers'),
    heads=heads,
    kv_heads=kv_heads,
    head_dim=head_dim,
    mlp_width=need('intermediate_size'),
    rope=hf_rope.read(config),
    norm_eps=need('rms_norm_eps'),
    tied=bool(config.get('tie_word_embeddings', False)),
    qkv_bias=biased or family == 'qwen2',
    out_bias=biased and family != 'qwen2',
    qk_norm=family in ('qwen3', 'qwen3_moe'),
    context=need('max_position_embeddings'),
    family=family,
    mixture=_mixture(config) if family == 'qwen3_moe' else None,
  )


def from_sizes(size: sizes.Sizes, dtype: str) -> dict[str, Any]:
  """The config.json of a model whose tensors are of `dtype`.

  Raises:
    ValueError: the family cannot express the sizes.
  """
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
    **hf_rope.write(size.rope),
    'tie_word_embeddings': size.tied,
    # The tokenizer says these; left out, llama would read 1 and 2.
    'bos_token_id': None,
    'eos_token_id': None,
  }
  if size.family != 'qwen2':
    config['attention_bias'] = size.qkv_bias
  if size.mixture:
    config |= {
      # Both spellings: readers of each would take a default for the other.
      'num_experts': size.mixture.experts,
      'num_local_experts': size.mixture.experts,
      'num_experts_per_tok': size.mixture.chosen,
      'moe_intermediate_size': size.mixture.width,
      'norm_topk_prob': size.mixture.normalized,
      'decoder_sparse_step': 1,
      'mlp_only_layers': list(size.mixture.dense),
    }
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
  for key in _MIXTURE if family != 'qwen3_moe' else ():
    if config.get(key):
      raise ValueError(
        f'config.json has {key} = {config[key]!r}, but a {family} has no'
        ' experts; correct model_type, or remove the key.'
      )
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


def _mixture(config: Config) -> sizes.Mixture:
  """The experts; layer i has them unless i + 1 is no multiple of the step."""
  names = 'num_experts', 'num_local_experts'
  counts = {config[name] for name in names if config.get(name) is not None}
  if len(counts) > 1:
    raise ValueError(
      f'config.json has num_experts = {config["num_experts"]} and'
      f' num_local_experts = {config["num_local_experts"]}; make them agree.'
    )
  step = config.get('decoder_sparse_step') or 1
  dense = set(config.get('mlp_only_layers') or ())
  layers = range(_need(config, 'num_hidden_layers'))
  return sizes.Mixture(
    experts=counts.pop() if counts else _need(config, 'num_experts'),
    chosen=_need(config, 'num_experts_per_tok'),
    width=_need(config, 'moe_intermediate_size'),
    normalized=bool(config.get('norm_topk_prob', False)),
    dense=tuple(i for i in layers if i in dense or (i + 1) % step),
  )


def _unimplemented(key: str, config: Config) -> None:
  raise ValueError(
    f'config.json has {key} = {config[key]!r}, but arl implements full '
    'attention and silu MLPs without bias; choose another model.'
  )
