"""Engines that keep keys and values in 8 bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import cached, sizes, transformer
from arl.rollout import continuous, engine, local
from tests import tiny as tiny_lib
from tests.rollout import serving

CONTEXT, VOCAB = 64, 32
WARM = engine.Sampling(temperature=1.3, stop=(0,), entropy=True)
KEPT = {'': cached.Exact, 'int8': cached.Rounded}
SETTINGS = {'slots': 8, 'context': CONTEXT, 'seed': 3}


@pytest.fixture(scope='module')
def rounded():
  size = sizes.tiny(VOCAB)._replace(tied=False)
  return transformer.make(size, cache='int8')


@pytest.fixture(scope='module')
def samples(tiny, rounded):
  asked = requests()
  made = local.LocalEngine(rounded, tiny[1], **SETTINGS)
  return asked, made.generate(asked, WARM)


def requests():
  rng = np.random.default_rng(0)
  return [
    engine.Request(tuple(rng.integers(1, VOCAB, n).tolist()), 30, (0, n))
    for n in range(3, 33, 3)
  ]


def test_both_engines_give_the_same_bits(tiny, rounded, samples):
  asked, wanted = samples
  made = continuous.ContinuousEngine(rounded, tiny[1], **SETTINGS)
  found = made.generate(asked, WARM)
  made.close()
  for a, b in zip(found, wanted, strict=True):
    np.testing.assert_array_equal(a.tokens, b.tokens)
    np.testing.assert_array_equal(a.logp, b.logp)


def test_log_probs_are_those_sampled_from(tiny, rounded, samples):
  """Token by token through the same cache, as one reads it back."""

  @jax.jit
  def step(cache, token, t):
    hidden, cache = rounded.extend(
      tiny[1], token[None, None], t[None, None], cache
    )
    logits = rounded.logits(tiny[1], hidden[0, 0]) / WARM.temperature
    return cache, jax.nn.log_softmax(logits)

  for request, sample in list(zip(*samples))[:3]:
    ids = [*request.tokens, *sample.tokens.tolist()]
    cache, logp = rounded.cache(1, CONTEXT), []
    for t, token in enumerate(ids[:-1]):
      cache, of_next = step(cache, jnp.int32(token), jnp.int32(t))
      logp.append(of_next[ids[t + 1]])
    n = len(sample.tokens)
    # What lies between two levels may go to the other in another order of sums.
    np.testing.assert_allclose(logp[-n:], sample.logp, atol=1e-3)


def test_ratios_to_the_trainer_stay_near_1(tiny, samples):
  asked, made = samples
  exact = local.LocalEngine(*tiny, **SETTINGS)
  whole = [(*r.tokens, *s.tokens.tolist()) for r, s in zip(asked, made)]
  scores = exact.score(whole, WARM.temperature)
  gaps = np.concatenate(
    [score[-len(s.logp) :] - s.logp for score, s in zip(scores, made)]
  )
  assert len(gaps) > 100 and np.abs(gaps).max() > 1e-6
  assert np.abs(np.expm1(gaps)).max() < 0.1
  assert np.abs(np.expm1(gaps)).mean() < 0.02


def test_a_server_of_it(tmp_path):
  folder = tiny_lib.write_model(tmp_path / 'model', shape=tiny_lib.size(32))
  body = {
    'input_ids': [2, 3, 4, 5],
    'return_logprob': True,
    'sampling_params': {
      'max_new_tokens': 9, 'ignore_eos': True, 'temperature': 0,
    },
  }  # fmt: skip
  logp = {}
  for kind in cached.KINDS:
    with serving.running(folder, cache=kind) as client:
      answer = client.post('/generate', json=body).json()
      told = answer['meta_info']['output_token_logprobs']
      logp[kind] = np.array([each[0] for each in told])
      held = client.serving.engine._passes._pool
      assert all(isinstance(kept, KEPT[kind]) for kept in held)
  assert len(logp['int8']) == 9
  np.testing.assert_allclose(logp['int8'], logp[''], atol=0.05)
