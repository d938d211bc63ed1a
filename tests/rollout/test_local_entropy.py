"""Entropies of the embedded engine, against the model's own distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import heads
from arl.rollout import engine, local

CONTEXT = 48
ASKED = [
  engine.Request((5, 6, 7), 9, (0, 0), session=0),
  engine.Request(tuple(range(2, 22)), 6, (0, 1), session=1),
  engine.Request((9,), 1, (0, 2), session=2),
]


@pytest.fixture(scope='module')
def made(tiny):
  return local.LocalEngine(*tiny, slots=4, context=CONTEXT, seed=7)


@pytest.fixture(scope='module')
def exact(tiny):
  """(tokens, temperature) -> entropy and log-prob of each, by one pass."""
  model, params = tiny

  @jax.jit
  def run(tokens, temperature):
    positions = jnp.arange(CONTEXT)[None]
    segments = jnp.ones_like(positions)
    hidden = model.apply(params, tokens, positions, segments)
    want = frozenset({'entropy', 'logp'})
    return heads.columns(
      model, params, hidden, tokens, want, temperature=temperature
    )

  def of(tokens, temperature):
    row = np.zeros((1, CONTEXT), np.int32)
    row[0, : len(tokens)] = tokens
    made = run(row, jnp.float32(temperature))
    return {k: np.asarray(v)[0, : len(tokens)] for k, v in made.items()}

  return of


@pytest.mark.parametrize('temperature, seen', [(1.3, 1.3), (0.0, 1.0)])
def test_entropy_is_that_of_the_distribution(made, exact, temperature, seen):
  sampling = engine.Sampling(temperature=temperature, entropy=True)
  samples = made.generate(ASKED, sampling)
  for request, sample in zip(ASKED, samples, strict=True):
    n = len(request.tokens)
    wanted = exact([*request.tokens, *sample.tokens.tolist()], seen)
    assert sample.entropy.dtype == np.float32
    np.testing.assert_allclose(sample.entropy, wanted['entropy'][n:], atol=1e-5)
    np.testing.assert_allclose(sample.logp, wanted['logp'][n:], atol=1e-5)
    assert np.all(sample.entropy > 0.01)


def test_a_later_turn_has_its_own(made, tiny, exact):
  made.set_params(tiny[1], 1)
  sampling = engine.Sampling(temperature=1.3, entropy=True)
  (first,) = made.generate(ASKED[:1], sampling)
  tokens = (*ASKED[0].tokens, *first.tokens.tolist(), 4, 5)
  later = ASKED[0]._replace(tokens=tokens, path=(0, 9))
  (second,) = made.generate([later], sampling)
  wanted = exact([*tokens, *second.tokens.tolist()], 1.3)
  np.testing.assert_allclose(
    second.entropy, wanted['entropy'][len(tokens) :], atol=1e-5
  )


def test_asking_changes_no_sample_and_not_asking_gives_none(made, tiny):
  plain = engine.Sampling(temperature=1.3)
  runs = []
  for sampling in (plain, plain._replace(entropy=True)):
    made.set_params(tiny[1], 2)
    runs.append(made.generate(ASKED, sampling))
  for without, told in zip(*runs, strict=True):
    np.testing.assert_array_equal(without.tokens, told.tokens)
    np.testing.assert_allclose(without.logp, told.logp, atol=1e-6)
    assert without.entropy is None
    assert len(told.entropy) == len(told.tokens)
