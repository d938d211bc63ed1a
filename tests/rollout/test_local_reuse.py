"""Whatever slots hold, and are cut to, an answer is that of its own tokens."""

import jax
import numpy as np
import pytest
import tiny

from arl.models import transformer
from arl.rollout import engine, local

SAMPLING = engine.Sampling(temperature=1.0, stop=(1,))


@pytest.fixture(scope='module')
def model():
  made = transformer.make(tiny.size())
  params = jax.tree.map(lambda x: 4 * x, made.init(jax.random.key(3)))
  return made, params


@pytest.mark.parametrize('slots', [2, 5, 16])
def test_answers_of_mixed_calls_are_scored_as_they_say(model, slots):
  speaker = local.LocalEngine(*model, slots=slots, context=32, seed=slots)
  rng = np.random.default_rng(slots)
  known = [[2, 6], [3, 6], [4, 6]]
  for call in range(12):
    asked = []
    for place in range(int(rng.integers(1, 2 * slots + 2))):
      whole = known[rng.integers(len(known))]
      tokens = whole[: rng.integers(2, len(whole) + 1)]
      room = min(6, 32 - len(tokens))
      asked.append(engine.Request(tuple(tokens), room, (call, place)))
    samples = speaker.generate(asked, SAMPLING)
    rows = [[*a.tokens, *map(int, s.tokens)] for a, s in zip(asked, samples)]
    for a, s, told in zip(asked, samples, speaker.score(rows, 1.0)):
      np.testing.assert_allclose(
        s.logp, told[len(a.tokens) :], atol=1e-4, err_msg=f'{call} {a}'
      )
    known += [row for row in rows if len(row) < 26]
