"""What fresh requests begin with is computed once, and changes no sample."""

import numpy as np
import pytest

from arl.rollout import engine, local

WARM = engine.Sampling(temperature=1.3, stop=(0, 1))
OPENING = tuple(np.random.default_rng(0).integers(2, 32, 37).tolist())
ENDINGS = [(7,), (8, 9), (7, 7, 7), tuple(range(2, 22)), (11,) * 17]


@pytest.fixture(scope='module')
def made(tiny):
  return local.LocalEngine(*tiny, slots=8, context=80, seed=5)


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


def test_the_opening_is_fed_once(fresh):
  fed = []
  open_, run = fresh._open, fresh._run

  def opening(params, tokens, count):
    fed.append(('opening', count.tolist()))
    return open_(params, tokens, count)

  def generate(*arguments):
    fed.append(('rows', arguments[5].count[: len(ENDINGS)].tolist()))
    return run(*arguments)

  fresh._open, fresh._run = opening, generate
  try:
    fresh.generate(requests(ENDINGS), WARM)
    fresh.set_params(fresh._params, 0)
    fresh.generate(requests(ENDINGS[:1]), WARM)
  finally:
    fresh._open, fresh._run = open_, run
  assert fed == [
    ('opening', [37]),
    ('rows', [1, 2, 3, 20, 17]),
    ('rows', [38, 0, 0, 0, 0]),
  ]


@pytest.mark.parametrize(
  'endings, shared',
  [
    ([], 0),
    ([(1, 2, 3)], 0),
    ([(1, 2, 3), (1, 2, 4)], 18),
    ([(1, 2, 3), (1, 2, 3)], 18),
    ([(1, 2, 3), (1, 2)], 17),
    ([(), ()], 0),
    ([(1,), (2,)], 16),
    ([(1, 2, 3), (1, 2, 3, 4), (1, 5, 3)], 17),
  ],
)
def test_a_token_of_each_is_left_to_feed(endings, shared):
  before = OPENING[:16]
  assert local._common([(*before, *ending) for ending in endings]) == shared
  assert local._common([(*before[1:], *e) for e in endings]) in (0, shared - 1)
