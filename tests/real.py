"""Real SGLang servers, of small models that arl made."""

import contextlib
import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl.models import hf, sizes, tokenizers, transformer
from arl.rollout import local
from experiments.studies import servers

VOCAB, CONTEXT, SEED = 64, 512, 3
_SMALL = sizes.tiny(VOCAB)._replace(
  width=64, head_dim=16, mlp_width=128, context=CONTEXT
)
SIZES = {
  'llama': _SMALL,
  'qwen2': _SMALL._replace(family='qwen2', qkv_bias=True),
  'qwen3': _SMALL._replace(family='qwen3', qk_norm=True, tied=False),
  'qwen3_moe': sizes.tiny_moe(VOCAB)._replace(context=CONTEXT),
}


def params(size, seed):
  """Parameters that make the logits uneven."""
  rng = np.random.default_rng(seed)
  shapes = jax.eval_shape(transformer.make(size).init, jax.random.key(0))
  draw = lambda x: jnp.asarray(0.3 * rng.normal(size=x.shape), x.dtype)
  return jax.tree.map(draw, shapes)


def embedded(size, weights):
  """The engine in process."""
  model = transformer.make(size)
  return local.LocalEngine(model, weights, slots=8, context=256, seed=SEED)


@contextlib.contextmanager
def serving(family, folder, *flags):
  """The url of a server with the parameters of seed 0."""
  size, python = SIZES[family], pathlib.Path(os.environ['ARL_SGLANG_PYTHON'])
  hf.save(folder / family, jax.device_get(params(size, 0)), size)
  tokenizers.save(tiny.tokenizer(), folder / family)
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv('ARL_SGLANG_VENV', str(python.parents[1]))
    with servers.sglang(folder / family, folder / 'logs', *flags) as url:
      yield url
