"""Interrupted samples go on: tokens, versions and budgets over all parts."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from arl.rollout import engine, resume

STOP = (2,)


class Interrupted:
  """Continues the count of tokens so far; is interrupted as a script says.

  The version goes up with each interruption, as if by an update.
  """

  def __init__(self, pieces, total):
    self.pieces, self.total = list(pieces), total
    self.asked, self.version = [], 7

  def __call__(self, requests, sampling):
    del sampling
    self.asked.append(list(requests))
    piece = self.pieces.pop(0) if self.pieces else 10**6
    made = [self._answer(request, piece) for request in requests]
    self.version += 1
    return made

  def _answer(self, request, piece):
    first = len(request.tokens)
    left = self.total - first
    n = min(piece, request.max_tokens, left)
    ids = [10 + first + i for i in range(n)]
    finish = engine.ABORT
    if n == left:
      ids[-1:], finish = STOP, engine.STOP
    elif n == request.max_tokens:
      finish = engine.LENGTH
    return engine.Sample(
      np.array(ids, np.int32),
      -0.1 * np.array(ids, np.float32),
      finish,
      np.full(n, self.version, np.int32),
      experts=np.full((first + n - 1, 1, 1), self.version, np.int32),
    )


def test_parts_are_joined():
  ask = Interrupted([3], total=8)
  request = engine.Request((1, 1, 1), 60, (4, 0))
  (sample,) = resume.generate(ask, [request], engine.Sampling(stop=STOP))
  assert sample.tokens.tolist() == [13, 14, 15, 16, 2]
  assert sample.versions.tolist() == [7, 7, 7, 8, 8]
  np.testing.assert_allclose(sample.logp, -0.1 * sample.tokens)
  assert sample.finish == engine.STOP
  # What a token went through when it was sampled stays.
  assert sample.experts.ravel().tolist() == [7] * 5 + [8] * 2
  rest = ask.asked[1][0]
  assert rest.tokens == (1, 1, 1, 13, 14, 15)
  assert rest.max_tokens == 57
  assert rest.path == (4, 0, 3)


@hypothesis.given(
  pieces=st.lists(st.integers(0, 5), max_size=7),
  budgets=st.lists(st.integers(1, 12), min_size=1, max_size=4),
  total=st.integers(4, 20),
)
@hypothesis.settings(deadline=None)
def test_interruptions_change_versions_alone(pieces, budgets, total):
  requests = [
    engine.Request((1,) * (1 + i), most, (0, i))
    for i, most in enumerate(budgets)
    if 1 + i < total
  ]
  sampling = engine.Sampling(stop=STOP)
  ask = Interrupted(pieces, total)
  cut = resume.generate(ask, requests, sampling)
  whole = resume.generate(Interrupted([], total), requests, sampling)
  for one, other, request in zip(cut, whole, requests):
    assert one.tokens.tolist() == other.tokens.tolist()
    np.testing.assert_array_equal(one.logp, other.logp)
    assert one.finish == other.finish
    assert len(one.tokens) <= request.max_tokens
    assert np.all(np.diff(one.versions) >= 0)
    engine.check_sample(one, request, sampling)
  for call in ask.asked:
    assert all(r.max_tokens >= 1 for r in call)


def test_an_interruption_at_the_limit_is_the_limit():
  ask = Interrupted([4], total=50)
  request = engine.Request((1,), 4, (0,))
  ask_cut = lambda *args: [s._replace(finish='abort') for s in ask(*args)]
  (sample,) = resume.generate(ask_cut, [request], engine.Sampling(stop=STOP))
  assert sample.finish == engine.LENGTH and len(ask.asked) == 1


def test_no_progress_is_an_error():
  ask = Interrupted([0] * 20, total=9)
  request = engine.Request((1,), 4, (0,))
  with pytest.raises(RuntimeError, match='1 requests 8 times without a token;'):
    resume.generate(ask, [request], engine.Sampling(stop=STOP))
