"""Real SGLang servers, of small models that arl made."""

import contextlib
import functools
import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl.models import hf, sizes, tokenizers, transformer
from arl.rollout import engine, local, sglang
from arl.train import sync
from experiments.studies import servers

VOCAB, CONTEXT, SEED = 64, 512, 3
CLOSE = 1e-5  # log-probs, in float32
# The end token of the tokenizer is 1, at which a server stops anyway.
STOP = (1, 5, 9)
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


def connect(url, size=SIZES['qwen3'], **keywords):
  made = transformer.make(size)
  told = {'vocab': VOCAB, 'context': 512, 'seed': SEED}
  return sglang.connect([url], **told, experts=made.experts, **keywords)


@functools.cache
def probe(size=SIZES['qwen3']):
  made = sync.probe(transformer.make(size), list(range(2, 62, 3)), 1e-4)
  made.logp(params(size, 0))  # compiles
  return made


def requests(count=8, most=30, seed=0):
  """Prompts of many lengths; the last id of the vocabulary is among them."""
  rng = np.random.default_rng(seed)
  made = []
  for i, n in enumerate(rng.integers(4, 120, count)):
    prompt = (*rng.integers(0, VOCAB, n - 1).tolist(), VOCAB - 1)
    made.append(engine.Request(prompt, most, (seed, i), session=(seed, i)))
  return made


def whole(request, sample):
  return [*request.tokens, *sample.tokens.tolist()]


def check_greedy(theirs, ours):
  greedy = engine.Sampling(temperature=0, stop=STOP)
  mine = ours.generate(requests(), greedy)
  for a, b in zip(mine, theirs.generate(requests(), greedy), strict=True):
    np.testing.assert_array_equal(a.tokens, b.tokens)
    np.testing.assert_allclose(a.logp, b.logp, rtol=0, atol=CLOSE)
    assert a.finish == b.finish


def check_log_probs(theirs, ours, temperature):
  sampling = engine.Sampling(temperature=temperature, stop=STOP)
  samples = theirs.generate(requests(), sampling)
  rows = [whole(r, s) for r, s in zip(requests(), samples)]
  for request, sample, logp in zip(
    requests(), samples, ours.score(rows, temperature)
  ):
    wanted = logp[len(request.tokens) :]
    np.testing.assert_allclose(sample.logp, wanted, rtol=0, atol=CLOSE)
