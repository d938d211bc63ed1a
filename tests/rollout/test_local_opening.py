"""What fresh requests begin with is computed once, and changes no sample."""

import jax
import numpy as np
import pytest

from arl.models import sizes, transformer
from arl.rollout import engine, local

WARM = engine.Sampling(temperature=1.3, stop=(0, 1))
OPENING = tuple(np.random.default_rng(0).integers(2, 32, 37).tolist())
ENDINGS = [(7,), (8, 9), (7, 7, 7), tuple(range(2, 22)), (11,) * 17]


@pytest.fixture(scope='module')
def made(tiny):
  return local.LocalEngine(*tiny, slots=8, context=80, seed=5)


@pytest.fixture(scope='module')
def long_model():
  model = transformer.make(sizes.tiny(32)._replace(context=600))
  return model, model.init(jax.random.key(0))


@pytest.fixture
def fresh(made, tiny):
  made.set_params(tiny[1], 0)
  return made


def requests(endings, before=OPENING):
  return [
    engine.Request((*before, *ending), 9, (0, i, 0), session=(i,))
    for i, ending in enumerate(endings)
  ]


def same(one, two):
  for a, b in zip(one, two, strict=True):
    np.testing.assert_array_equal(a.tokens, b.tokens)
    np.testing.assert_allclose(a.logp, b.logp, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
  'before, endings',
  [
    (OPENING, ENDINGS),
    ((), ENDINGS),
    (OPENING, [()] * 3),
    (OPENING[:17], [()] * 3),
  ],
)
def test_together_as_one_by_one(fresh, tiny, before, endings):
  asked = requests(endings, before)
  together = fresh.generate(asked, WARM)
  fresh.set_params(tiny[1], 0)
  same(together, [fresh.generate([r], WARM)[0] for r in asked])


def test_fresh_rows_beside_rows_that_continue(fresh, tiny):
  first = requests(ENDINGS[:3])
  later = [
    r._replace(tokens=(*r.tokens, *s.tokens.tolist(), 5), path=(0, i, 1))
    for i, (r, s) in enumerate(zip(first, fresh.generate(first, WARM)))
  ]
  new = [r._replace(session=(9, *r.session)) for r in requests(ENDINGS[2:])]
  mixed = [request for pair in zip(later, new) for request in pair]
  together = fresh.generate(mixed, WARM)
  fresh.set_params(tiny[1], 0)
  same(together, [fresh.generate([r], WARM)[0] for r in mixed])


def fed(made, asked):
  before = made.load()['fed']
  samples = made.generate(asked, WARM)
  return [s.cached for s in samples], made.load()['fed'] - before


def test_the_opening_is_fed_once(fresh):
  cached, count = fed(fresh, requests(ENDINGS))
  assert cached == [0, 37, 38, 37, 37]  # the third as far as the first
  assert count == 37 + sum(map(len, ENDINGS)) - 1


def test_the_prompt_of_a_group_is_fed_once(fresh):
  """A beginning of all, then each prompt, then copies that feed nothing."""
  endings = [tuple(range(2, 2 + n)) + (n,) for n in (17, 20)]
  asked = [
    r._replace(path=(0, p, g), session=(p, g))
    for p, r in enumerate(requests(endings))
    for g in range(3)
  ]
  cached, count = fed(fresh, asked)
  whole = [37 + len(ending) for ending in endings]
  assert cached == [0, whole[0], whole[0], 37 + 17, whole[1], whole[1]]
  assert count == whole[0] + len(endings[1]) - 17
  samples = fresh.generate(asked, WARM)
  assert len({tuple(s.tokens.tolist()) for s in samples}) > 2


def test_a_prompt_longer_than_a_pass_is_fed_once(long_model):
  model, params = long_model
  made = local.LocalEngine(model, params, slots=8, context=600, seed=5)
  prompt = tuple(np.random.default_rng(1).integers(2, 32, 500).tolist())
  asked = [engine.Request(prompt, 3, (0, g)) for g in range(8)]
  cached, count = fed(made, asked)
  assert (cached, count) == ([0] + [500] * 7, 500)
