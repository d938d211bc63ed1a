"""config.json: both spellings, nested flags, and what is refused."""

import numpy as np
import pytest

from arl.models import hf_config, rope, sizes

LLAMA = {
  'model_type': 'llama',
  'vocab_size': 97,
  'hidden_size': 32,
  'intermediate_size': 48,
  'num_hidden_layers': 2,
  'num_attention_heads': 4,
  'rms_norm_eps': 1e-6,
  'max_position_embeddings': 128,
}
QWEN2 = {**LLAMA, 'model_type': 'qwen2', 'num_key_value_heads': 2}
QWEN3 = {**QWEN2, 'model_type': 'qwen3', 'head_dim': 16}
MOE = {
  **QWEN3,
  'model_type': 'qwen3_moe',
  'num_hidden_layers': 6,
  'num_experts': 8,
  'num_experts_per_tok': 2,
  'moe_intermediate_size': 24,
}
LINEAR = {'rope_type': 'linear', 'factor': 4.0}
YARN = {
  'rope_type': 'yarn',
  'factor': 4.0,
  'original_max_position_embeddings': 64,
}


def test_families():
  llama, qwen2, qwen3 = map(hf_config.to_sizes, (LLAMA, QWEN2, QWEN3))
  assert llama == sizes.Sizes(
    vocab=97,
    width=32,
    layers=2,
    heads=4,
    kv_heads=4,
    head_dim=8,
    mlp_width=48,
    rope=sizes.Rope(10_000.0),
    norm_eps=1e-6,
    tied=False,
    context=128,
  )
  assert qwen2 == llama._replace(kv_heads=2, qkv_bias=True, family='qwen2')
  assert qwen3 == llama._replace(
    kv_heads=2, head_dim=16, qk_norm=True, family='qwen3'
  )
  biased = hf_config.to_sizes({**LLAMA, 'attention_bias': True})
  assert biased.qkv_bias and biased.out_bias


@pytest.mark.parametrize(
  'keys, changes',
  [
    ({}, {}),
    ({'num_local_experts': 8}, {}),
    ({'num_experts': None, 'num_local_experts': 4}, {'experts': 4}),
    ({'norm_topk_prob': True}, {'normalized': True}),
    ({'mlp_only_layers': [4, 0]}, {'dense': (0, 4)}),
    ({'decoder_sparse_step': 2}, {'dense': (0, 2, 4)}),
    (
      {'decoder_sparse_step': 3, 'mlp_only_layers': [2]},
      {'dense': (0, 1, 2, 3, 4)},
    ),
    ({'router_aux_loss_coef': 0.001, 'output_router_logits': True}, {}),
  ],
)
def test_experts(keys, changes):
  size = hf_config.to_sizes({**MOE, **keys})
  mixture = sizes.Mixture(8, 2, 24, normalized=False)
  assert size.mixture == mixture._replace(**changes)
  assert size.qk_norm and size.family == 'qwen3_moe' and size.mlp_width == 48


@pytest.mark.parametrize(
  'spelling',
  [
    {'rope_theta': 10_000.0, 'rope_scaling': LINEAR},
    {'rope_theta': 10_000, 'rope_scaling': {'type': 'linear', 'factor': 4}},
    {'rope_parameters': {'rope_theta': 10_000.0, **LINEAR}},
    {'rope_theta': 10_000.0, 'rope_parameters': LINEAR},
    {
      'rope_theta': 10_000.0,
      'rope_scaling': LINEAR,
      'rope_parameters': {'rope_theta': 10_000.0, **LINEAR},
    },
  ],
)
def test_rope_spellings_agree(spelling):
  size = hf_config.to_sizes({**LLAMA, **spelling})
  radians, _ = rope.frequencies(size.rope, 4)
  np.testing.assert_allclose(8 * radians, [2.0, 0.02])


@pytest.mark.parametrize(
  'top, nested, tied',
  [
    ({}, {}, False),
    ({'tie_word_embeddings': True}, {}, True),
    ({}, {'tie_word_embeddings': True}, True),
    ({'tie_word_embeddings': True}, {'tie_word_embeddings': True}, True),
    ({}, {'tie_word_embeddings': False}, False),
  ],
)
def test_the_tie_flag_may_be_nested(top, nested, tied):
  size = hf_config.to_sizes({**LLAMA, **top, 'text_config': nested})
  assert size.tied == tied


@pytest.mark.parametrize(
  'config, match',
  [
    ({**LLAMA, 'model_type': 'mixtral'}, "model_type 'mixtral'"),
    ({**LLAMA, 'vocab_size': None}, "lacks 'vocab_size'"),
    ({**MOE, 'num_experts': None}, "lacks 'num_experts'"),
    ({**MOE, 'moe_intermediate_size': None}, "lacks 'moe_intermediate_size'"),
    ({**MOE, 'num_local_experts': 4}, 'num_local_experts = 4; make them agree'),
    ({**QWEN3, 'num_experts': 8}, 'a qwen3 has no experts'),
    ({**MOE, 'n_shared_experts': 1}, 'n_shared_experts = 1'),
    ({**QWEN3, 'head_dim': None}, "lacks 'head_dim'"),
    ({**QWEN2, 'num_key_value_heads': None}, "lacks 'num_key_value_heads'"),
    ({**LLAMA, 'hidden_act': 'gelu'}, "hidden_act = 'gelu'"),
    ({**LLAMA, 'mlp_bias': True}, 'mlp_bias = True'),
    ({**LLAMA, 'sliding_window': 64}, 'sliding_window = 64'),
    (
      {
        **QWEN2,
        'use_sliding_window': True,
        'sliding_window': 64,
        'max_window_layers': 1,
      },
      'use_sliding_window = True',
    ),
    (
      {**QWEN3, 'layer_types': ['full_attention', 'sliding_attention']},
      'layer_types',
    ),
    ({**LLAMA, 'quantization_config': {'bits': 4}}, 'quantization_config'),
    ({**LLAMA, 'rope_interleaved': True}, 'rope_interleaved = True'),
    (
      {
        **LLAMA,
        'tie_word_embeddings': False,
        'text_config': {'tie_word_embeddings': True},
      },
      'make them agree',
    ),
    ({**LLAMA, 'rope_scaling': {'rope_type': 'dynamic'}}, "'dynamic'"),
    ({**LLAMA, 'rope_scaling': {'type': 'mrope'}}, "'mrope'"),
    (
      {**LLAMA, 'rope_scaling': {'type': 'linear', 'rope_type': 'yarn'}},
      "'linear'",
    ),
    ({**LLAMA, 'rope_scaling': {'rope_type': 'linear'}}, "needs 'factor'"),
    ({**LLAMA, 'rope_scaling': {**LINEAR, 'beta_fast': 32}}, 'reads only'),
    ({**LLAMA, 'partial_rotary_factor': 0.5}, 'partial_rotary_factor 0.5'),
    (
      {
        **LLAMA,
        'rope_scaling': LINEAR,
        'rope_parameters': {'rope_theta': 10_000.0, **YARN},
      },
      'make them agree',
    ),
    (
      {
        **LLAMA,
        'rope_theta': 500.0,
        'rope_parameters': {'rope_theta': 10_000.0},
      },
      'theta 500.0 and 10000.0',
    ),
    (
      {
        **LLAMA,
        'rope_scaling': {
          'rope_type': 'llama3',
          'factor': 8.0,
          'original_max_position_embeddings': 64,
        },
      },
      "needs 'low_freq_factor'",
    ),
  ],
)
def test_refused(config, match):
  with pytest.raises(ValueError, match=match):
    hf_config.to_sizes(config)


def test_unused_windows_are_no_obstacle():
  window = {'sliding_window': 64, 'use_sliding_window': False}
  assert hf_config.to_sizes({**QWEN3, **window}) == hf_config.to_sizes(QWEN3)
  window = {
    'sliding_window': 64,
    'use_sliding_window': True,
    'max_window_layers': 2,
  }
  assert hf_config.to_sizes({**QWEN2, **window}) == hf_config.to_sizes(QWEN2)


@pytest.mark.parametrize(
  'size',
  [
    sizes.tiny(),
    sizes.quick(101),
    sizes.smollm2_135m(),
    sizes.llama3_2_1b(),
    sizes.qwen3_8b(),
    sizes.qwen3_30b_a3b(),
    sizes.tiny()._replace(
      rope=sizes.Rope(
        1e6, 'yarn', factor=4.0, original_max_position_embeddings=64
      )
    ),
  ],
)
def test_round_trip(size):
  assert hf_config.to_sizes(hf_config.from_sizes(size, 'float32')) == size


def test_a_family_cannot_say_everything():
  with pytest.raises(ValueError, match=r"'llama' cannot say \['qk_norm'\]"):
    hf_config.from_sizes(sizes.tiny()._replace(qk_norm=True), 'float32')
