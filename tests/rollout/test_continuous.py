"""Continuous batching: the tokens of LocalEngine, whatever else is going on."""

import asyncio
import threading
import time

import jax
import numpy as np
import pytest

from arl.rollout import continuous, engine, local, tickets

CONTEXT, VOCAB = 64, 32
WARM = engine.Sampling(temperature=1.3, stop=(0, 1))
PLAIN = WARM._replace(stop=())


@pytest.fixture(scope='module')
def slow(tiny):
  """The engine that is imitated."""
  return local.LocalEngine(*tiny, slots=16, context=CONTEXT, seed=7)


@pytest.fixture(scope='module')
def _made(tiny):
  made = continuous.ContinuousEngine(*tiny, slots=16, context=CONTEXT, seed=7)
  yield made
  made.close()


@pytest.fixture
def made(_made, tiny):
  """An engine that runs, with nothing in its caches."""
  _made.abort(None).result()
  _made.resume().result()
  _made.set_params(tiny[1], 0)
  return _made


def requests(count, seed=0):
  rng = np.random.default_rng(seed)
  asked = []
  for i in range(count):
    n = int(rng.integers(1, CONTEXT - 20))
    prompt = tuple(rng.integers(2, VOCAB, n).tolist())
    most = int(rng.integers(1, CONTEXT - n + 1))
    asked.append(engine.Request(prompt, most, (3, i, 0)))
  return asked


def long(i, most=60):
  """A request that runs until its limit."""
  return engine.Request((4, 5, i), most, (9, i))


def check_same(samples, others):
  for a, b in zip(samples, others, strict=True):
    np.testing.assert_array_equal(a.tokens, b.tokens)
    np.testing.assert_allclose(a.logp, b.logp, rtol=0, atol=1e-5)
    assert (a.finish, a.logp.dtype) == (b.finish, b.logp.dtype)


def collect(made, asked, sampling, name='x', gate=None, **wanted):
  """Submits a request; gives the list that its results are put in.

  The engine waits for the gate, if there is one, after the second result.
  """
  results = []

  def sink(value, last):
    results.append((value, last))
    if gate is not None and len(results) == 2:
      gate.wait(60)

  made.submit(
    asked,
    sampling,
    tickets.Wanted(**wanted),
    sink,
    name=name,
    each=True,
  )
  return results


def until(condition):
  deadline = time.monotonic() + 60
  while not condition():
    assert time.monotonic() < deadline
    time.sleep(0.005)


def ended(results):
  until(lambda: results and results[-1][1])
  return results[-1][0]


@pytest.mark.parametrize(
  'sampling',
  [
    WARM,
    PLAIN._replace(temperature=0.0),
    WARM._replace(top_p=0.8, top_k=5, entropy=True),
  ],
)
def test_as_the_local_engine(made, slow, tiny, sampling):
  asked = requests(40)
  slow.set_params(tiny[1], 0)
  wanted = slow.generate(asked, sampling)
  sampled = made.generate(asked, sampling)
  check_same(sampled, wanted)
  if sampling.entropy:
    for a, b in zip(sampled, wanted):
      np.testing.assert_allclose(a.entropy, b.entropy, rtol=0, atol=1e-5)
  check_same([made.generate([r], sampling)[0] for r in asked[:3]], wanted[:3])


def test_requests_of_all_kinds_at_once(made, slow, tiny):
  asked = requests(24, seed=2)
  kinds = [WARM, PLAIN._replace(temperature=0.0), WARM._replace(top_k=3)]
  kinds = [kinds[i % 3] for i in range(24)]
  slow.set_params(tiny[1], 0)

  async def ask(request, sampling, wait):
    await asyncio.sleep(0.01 * wait)
    return await made.sample(request, sampling)

  async def all_of_them():
    pairs = zip(asked, kinds)
    return await asyncio.gather(*(ask(*p, i) for i, p in enumerate(pairs)))

  sampled = asyncio.run(all_of_them())
  wanted = [slow.generate([r], s)[0] for r, s in zip(asked, kinds)]
  check_same(sampled, wanted)


def test_a_stream_grows(made, slow):
  async def read():
    return [s async for s in made.stream(long(1, 30), PLAIN)]

  samples = asyncio.run(read())
  assert [s.finish for s in samples] == [''] * (len(samples) - 1) + ['length']
  assert len(samples) > 3
  for before, after in zip(samples, samples[1:]):
    n = len(before.tokens)
    assert n < len(after.tokens)
    np.testing.assert_array_equal(before.tokens, after.tokens[:n])
    np.testing.assert_array_equal(before.logp, after.logp[:n])
  check_same([samples[-1]], slow.generate([long(1, 30)], PLAIN))


def test_prefixes_are_found_whoever_computed_them(made, slow, tiny):
  head = tuple(range(2, 31))
  (first,) = made.generate([engine.Request(head, 6, (0, 0))], PLAIN)
  assert first.cached == 0
  turn = (*head, *first.tokens.tolist(), 7, 8)
  later = [engine.Request(turn, 5, (1, i)) for i in range(4)]
  other = engine.Request((*head[:20], 3), 5, (2, 0))
  fed = made.load()['fed']
  sampled = made.generate([*later, other], PLAIN)
  # All but the last sampled token were computed; the first one feeds the rest.
  assert [s.cached for s in sampled] == [34, 37, 37, 37, 20]
  assert made.load()['fed'] - fed == 3 + 1
  slow.set_params(tiny[1], 0)
  check_same(sampled, slow.generate([*later, other], PLAIN))


def test_a_group_is_computed_once(made):
  head = tuple(range(2, 31))
  sampled = made.generate(
    [engine.Request(head, 4, (0, i)) for i in range(8)], PLAIN
  )
  assert sorted(s.cached for s in sampled) == [0] + [29] * 7
  assert len({tuple(s.tokens.tolist()) for s in sampled}) == 8


def test_new_weights_forget_what_was_computed(made, slow, tiny):
  head = tuple(range(2, 31))
  asked = engine.Request(head, 6, (0, 0))
  made.generate([asked], PLAIN)
  assert made.generate([asked], PLAIN)[0].cached == 28
  grown = jax.tree.map(lambda x: 1.05 * x, tiny[1])
  made.set_params(grown, 5)
  (sample,) = made.generate([asked], PLAIN)
  assert sample.cached == 0
  assert set(sample.versions) == {5} and made.version == 5
  slow.set_params(grown, 5)
  check_same([sample], slow.generate([asked], PLAIN))


def test_abort_keeps_the_tokens_so_far(made):
  whole = made.generate([long(0)], PLAIN)[0]
  gate = threading.Event()
  results = collect(made, long(0), PLAIN, 'mine', gate)
  other = collect(made, long(1), PLAIN, 'other')
  until(lambda: len(results) > 1)
  made.abort('mine')
  gate.set()
  sample = ended(results).sample
  n = len(sample.tokens)
  assert sample.finish == engine.ABORT and 0 < n < 60
  np.testing.assert_array_equal(sample.tokens, whole.tokens[:n])
  np.testing.assert_array_equal(sample.logp, whole.logp[:n])
  assert len(sample.versions) == n
  assert ended(other).sample.finish == engine.LENGTH


def test_abort_of_what_waits(made):
  many = [collect(made, long(i), PLAIN, f'r{i}') for i in range(18)]
  made.abort('r17').result()
  result = ended(many[17])
  assert result.queued and result.sample.finish == engine.ABORT
  assert len(result.sample.tokens) == len(result.sample.logp) == 0
  assert all(ended(m).sample.finish == engine.LENGTH for m in many[:17])


def test_a_cancelled_sample_is_aborted(made):
  async def leave():
    task = asyncio.create_task(made.sample(long(2), PLAIN))
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

  made.pause('in_place').result()
  asyncio.run(leave())
  until(lambda: made.load()['running'] + made.load()['waiting'] == 0)
  made.resume().result()


@pytest.mark.parametrize('mode', ['in_place', 'retract'])
def test_new_weights_within_a_request(made, slow, tiny, mode):
  gate = threading.Event()
  results = collect(made, long(0), PLAIN, 'x', gate)
  until(lambda: len(results) > 1)
  paused = made.pause(mode)
  gate.set()
  paused.result()
  held = collect(made, long(1), PLAIN)
  assert made.paused
  assert made.flush().result() is (mode == 'retract')
  grown = jax.tree.map(lambda x: 1.2 * x, tiny[1])
  made.set_params(grown, 8)
  n = len(results[-1][0].sample.tokens)
  time.sleep(0.05)
  assert len(results[-1][0].sample.tokens) == n and not held
  made.resume().result()
  result = ended(results)
  sample = result.sample
  assert sample.versions.tolist() == [0] * n + [8] * (60 - n)
  assert result.retractions == (mode == 'retract')
  slow.set_params(grown, 8)
  check_same([ended(held).sample], slow.generate([long(1)], PLAIN))
  # The token after the swap: all of it recomputed, or only the last one.
  ids = [*long(0).tokens, *sample.tokens.tolist()]
  scored = made.score([ids], PLAIN.temperature)[0][3:]
  difference = np.abs(scored - sample.logp)[n:].max()
  assert (difference < 1e-4) == (mode == 'retract')
  # What two weights computed together is continued by nobody.
  assert made.generate([engine.Request(ids[:-1], 1, (0,))], PLAIN)[
    0
  ].cached == (62 if mode == 'retract' else 2)


def test_a_pause_that_aborts(made):
  gate = threading.Event()
  running = collect(made, long(0), PLAIN, 'x', gate)
  waiting = [collect(made, long(i), PLAIN) for i in range(1, 18)]
  until(lambda: len(running) > 1)
  paused = made.pause('abort')
  gate.set()
  paused.result()
  assert ended(running).sample.finish == engine.ABORT
  assert {ended(w).sample.finish for w in waiting} == {engine.ABORT}
  held = collect(made, long(1), PLAIN)
  time.sleep(0.05)
  assert not held
  made.resume().result()
  assert ended(held).sample.finish == engine.LENGTH


def test_weights_without_a_pause_wait_for_what_runs(made, tiny):
  first = collect(made, long(0), PLAIN)
  until(lambda: first)
  done = made.take_params(tiny[1], 3)
  second = collect(made, long(1), PLAIN)
  done.result()
  assert set(ended(first).sample.versions) == {0}
  assert set(ended(second).sample.versions) == {3}


def test_what_else_is_told(made, slow, tiny):
  asked = long(3, 12)
  results = collect(made, asked, WARM._replace(stop=()), top=3, watched=(4, 9))
  result = ended(results)
  ids = [*asked.tokens, *result.sample.tokens.tolist()]
  (told,) = made.tell([ids], 1.3, top=3, watched=(4, 9)).result()
  for name in ('logp', 'watched'):
    wanted = told[name][3:]
    np.testing.assert_allclose(
      result.told[name][:, : wanted.shape[-1]] if wanted.ndim > 1
      else result.told[name],
      wanted, atol=1e-5,
    )  # fmt: skip
  np.testing.assert_array_equal(
    result.told['top'][0][:, :3], told['top'][0][3:, :3]
  )


def test_truncation_tells_what_was_kept(made):
  sampling = PLAIN._replace(top_k=4)
  results = collect(
    made, long(3, 12), sampling, kept=True, min_p=0.05, watched=range(VOCAB)
  )
  result = ended(results)
  kept = result.told['kept']
  assert kept.shape == (12, VOCAB) and set(kept.sum(1)) <= {1, 2, 3, 4}
  ids = result.sample.tokens
  assert all(kept[i, id] for i, id in enumerate(ids))
  probs = np.where(kept, np.exp(result.told['watched']), 0)
  probs /= probs.sum(1, keepdims=True)
  assert np.all(probs[kept] >= 0.05 * probs.max(1).min())
  np.testing.assert_allclose(
    np.exp(result.sample.logp), probs[np.arange(12), ids], atol=1e-5
  )


def test_no_stop_among_the_first(made):
  stop = tuple(range(2, VOCAB))
  sampling = WARM._replace(stop=stop)
  (short,) = made.generate([long(0)], sampling)
  assert len(short.tokens) < 9
  sample = ended(collect(made, long(0), sampling, least=9)).sample
  assert len(sample.tokens) > 9 and sample.finish == engine.STOP
  assert set(sample.tokens[:9].tolist()) <= {0, 1}


def test_a_failure_reaches_all_and_it_goes_on(made, monkeypatch):
  wanted = made.generate([long(1)], PLAIN)

  def fail(*_):
    raise ValueError('lost the device')

  made.pause('retract').result()
  many = [collect(made, long(i), PLAIN) for i in range(20)]
  monkeypatch.setattr(made._passes, '_all', fail)
  made.resume().result()
  for results in many:
    error = ended(results)
    assert isinstance(error, RuntimeError)
    assert 'the engine failed: lost the device; ask again' in str(error)
  monkeypatch.undo()
  check_same(made.generate([long(1)], PLAIN), wanted)


def test_broken_weights_are_noticed(made, tiny):
  made.set_params(jax.tree.map(lambda x: x * np.float32(np.nan), tiny[1]), 2)
  with pytest.raises(ValueError, match='not all finite .* look at its weights'):
    made.generate(requests(2), WARM)


def test_errors(made, tiny):
  with pytest.raises(ValueError, match='0 slots; set slots to 1 or more'):
    continuous.ContinuousEngine(*tiny, slots=0, context=8, seed=0)
  with pytest.raises(ValueError, match='made for 128: set context to 2 to'):
    continuous.ContinuousEngine(*tiny, slots=1, context=129, seed=0)
  with pytest.raises(ValueError, match='holds id 32, but the model knows ids'):
    made.generate([engine.Request((32,), 1, (0,))], WARM)
  with pytest.raises(ValueError, match='no mode; use one of'):
    made.pause('hold')
  with pytest.raises(ValueError, match='temperature is 0; give one above 0'):
    made.score([(3,)], temperature=0)
  experts = WARM._replace(experts=True)
  with pytest.raises(ValueError, match='a model that has none'):
    made.generate([engine.Request((3,), 1, (0,))], experts)


def test_a_closed_engine_says_so(tiny):
  made = continuous.ContinuousEngine(*tiny, slots=1, context=8, seed=0)
  made.pause('in_place').result()
  results = collect(made, engine.Request((3,), 1, (0,)), PLAIN)
  made.close()
  assert 'the engine failed: it was closed' in str(ended(results))
  with pytest.raises(RuntimeError, match='the engine is closed'):
    made.generate([engine.Request((3,), 1, (0,))], PLAIN)


def test_compiles(tiny):
  made = continuous.ContinuousEngine(*tiny, slots=33, context=CONTEXT, seed=7)
  asked = requests(40, seed=2)
  for n in (40, 1, 2, 8, 9, 33, 5):
    made.generate(asked[:n], WARM)
  made.generate(asked[:9], PLAIN._replace(temperature=0.0))
  # One for each number of rows: 33 and 8, and a single one that is fed.
  assert made.compiles() == {
    'engine_feed': 3,
    'engine_generate': 2,
    'engine_score': 0,
  }
  made.close()
