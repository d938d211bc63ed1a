"""The contract of an engine: what it refuses, in one sentence each."""

import numpy as np
import pytest

from arl.rollout import engine, scripted

STOP = (2,)
ENDS = engine.Sampling(stop=STOP)


def request(tokens=(1, 2, 3), max_tokens=4, path=(0, 0)):
  return engine.Request(tokens, max_tokens, path)


def sample(tokens=(5, 6, 2), logp=(-0.1, -0.2, -0.3), finish=engine.STOP):
  return engine.Sample(
    np.array(tokens, np.int32),
    np.array(logp, np.float32),
    finish,
    np.zeros(len(tokens), np.int32),
  )


def test_good_requests_pass():
  engine.check_requests([request(), request((0,), 9)], vocab=7, context=10)
  engine.check_requests([request((6,) * 9, 1)], vocab=7, context=10)
  engine.check_requests([], vocab=7, context=10)


@pytest.mark.parametrize(
  'bad, message',
  [
    (request(()), 'request 1 has 0 tokens, but .* holds 9; give 1 to 9'),
    (request((1,) * 10, 1), 'request 1 has 10 tokens, .* give 1 to 9'),
    (request((1, 7, 2)), 'request 1 holds id 7, .* ids 0 to 6; use the tok'),
    (request((1, -1, 2)), 'request 1 holds id -1, but'),
    (request(max_tokens=0), 'has 3 tokens and asks for 0 more, .* 1 to 7'),
    (request(max_tokens=8), 'asks for 8 more, .* holds 10; ask for 1 to 7'),
    (request(path=(0,)), r'request 1 has the path \(0,\), request 0 \(0, 0\)'),
  ],
)
def test_bad_requests(bad, message):
  with pytest.raises(ValueError, match=message):
    engine.check_requests([request(), bad], vocab=7, context=10)


@pytest.mark.parametrize(
  'values, message',
  [
    ({'temperature': -0.1}, 'temperature is -0.1; set it to 0 or more'),
    ({'temperature': float('nan')}, 'temperature is nan'),
    ({'temperature': float('inf')}, 'temperature is inf'),
    ({'top_p': 0.0}, 'top_p is 0.0; set it to more than 0 and at most 1'),
    ({'top_p': 1.5}, 'top_p is 1.5'),
    ({'top_k': -1}, 'top_k is -1; set it to 0 for all, or more'),
    ({'stop_text': ('a', '')}, r"stop_text is \('a', ''\); set it to texts"),
  ],
)
def test_bad_sampling(values, message):
  engine.check_sampling(engine.Sampling())
  engine.check_sampling(engine.Sampling(temperature=0, top_p=0.1, top_k=3))
  with pytest.raises(ValueError, match=message):
    engine.check_sampling(engine.Sampling(**values))


def test_good_samples_pass():
  engine.check_sample(sample(), request(), ENDS)
  cut = sample((5, 6, 7, 8), (0, 0, 0, 0), engine.LENGTH)
  engine.check_sample(cut, request(), ENDS)
  engine.check_sample(cut, request(), engine.Sampling())
  engine.check_sample(sample((2,), (-9,)), request(), ENDS)
  engine.check_sample(sample((5,), (-9,), engine.ABORT), request(), ENDS)
  engine.check_sample(sample((), (), engine.ABORT), request(), ENDS)


@pytest.mark.parametrize(
  'bad, message',
  [
    # The stop token trimmed from the ids but not from the log-probs.
    (sample((5, 6), (-0.1,) * 3), 'gave 2 tokens and 3 numbers of logp'),
    (sample((5,) * 5, (-0.1,) * 5, 'length'), "5 tokens and says 'length', f"),
    (sample((), ()), "gave 0 tokens and says 'stop', for a request of 1 to 4"),
    (sample(logp=(-0.1, np.nan, 0)), 'are not all finite and <= 0'),
    (sample(logp=(-0.1, -np.inf, 0)), 'are not all finite and <= 0'),
    (sample(logp=(-0.1, 0.5, 0)), 'are not all finite and <= 0'),
    # The stop token trimmed from both.
    (sample((5, 6), (-0.1,) * 2), r"\[5 6\] and says 'stop', .* are \(2,\)"),
    (sample(finish=engine.LENGTH), "says 'length', while the stop ids"),
    (sample((5, 2, 2)), 'it must end with the first stop token'),
    (sample((5, 2, 6), finish='length'), 'it must end with the first stop'),
    (sample((5, 6, 2), finish='abort'), "says 'abort', while the stop ids"),
    (sample((5, 6, 7), finish='error'), "says 'error', .* length or abort"),
    (sample()._replace(versions=np.zeros(2)), '3 tokens and 2 numbers of vers'),
    (sample()._replace(experts=np.zeros((6, 2, 2))), 'experts of 6 .* of 6;'),
  ],
)
def test_bad_samples(bad, message):
  with pytest.raises(ValueError, match=message):
    engine.check_sample(bad, request(), ENDS)


def test_a_text_may_end_a_sample():
  spelt = sample((5, 6, 7), finish=engine.STOP)
  engine.check_sample(spelt, request(), ENDS._replace(stop_text=('x',)))
  with pytest.raises(ValueError, match="says 'stop', while the stop ids"):
    engine.check_sample(spelt, request(), ENDS)
  made = scripted.ScriptedEngine(lambda request: [5], 9)
  with pytest.raises(ValueError, match=r"\('x',\), but this engine knows no"):
    made.generate([request()], engine.Sampling(stop_text=('x',)))


def test_scripted():
  made = scripted.ScriptedEngine(lambda request: [5, 6, len(request.tokens)], 9)
  asked = [request((1,)), request((1, 1, 1)), request((1, 1), 2)]
  samples = made.generate(asked, engine.Sampling(stop=STOP))
  said = [s.tokens.tolist() for s in samples]
  assert said == [[5, 6, 1, 2], [5, 6, 3, 2], [5, 6]]
  assert [s.finish for s in samples] == ['stop', 'stop', 'length']
  assert made.calls == asked
  np.testing.assert_allclose(samples[2].logp, [-2.1972246] * 2, rtol=1e-6)
  scores = made.score([(1, 2, 3), (4,)], temperature=1.0)
  np.testing.assert_allclose(scores[0], [0, -2.1972246, -2.1972246], rtol=1e-6)
  assert scores[1].tolist() == [0]
  made.set_params(None, 3)
  assert made.generate(asked, engine.Sampling())[0].versions.tolist() == [3] * 3


def test_entropies_are_one_a_token():
  good = sample()._replace(entropy=np.ones(3, np.float32))
  engine.check_sample(good, request(), ENDS)
  with pytest.raises(
    ValueError, match='3 tokens and 2 numbers of entropy; they'
  ):
    engine.check_sample(
      good._replace(entropy=np.ones(2, np.float32)), request(), ENDS
    )
