"""The embedded engine: what it samples depends on the request alone."""

import jax
import numpy as np
import pytest

from arl.rollout import engine, local

CONTEXT, VOCAB = 64, 32
WARM = engine.Sampling(temperature=1.3, stop=(0, 1))
PLAIN = WARM._replace(stop=())


@pytest.fixture(scope='module')
def made(tiny):
  """An engine for all tests; `fresh` empties it."""
  return local.LocalEngine(*tiny, slots=16, context=CONTEXT, seed=7)


@pytest.fixture(scope='module')
def wide(tiny):
  """One with room for passes of two sizes, 33 and 8 rows."""
  return local.LocalEngine(*tiny, slots=33, context=CONTEXT, seed=7)


def fresh(made, tiny):
  made.set_params(tiny[1], 0)
  return made


def requests(count, seed=0):
  """Prompts of all lengths that ask for any number of tokens."""
  rng = np.random.default_rng(seed)
  asked = []
  for i in range(count):
    n = int(rng.integers(1, CONTEXT - 20))
    prompt = tuple(rng.integers(2, VOCAB, n).tolist())
    most = int(rng.integers(1, CONTEXT - n + 1))
    asked.append(engine.Request(prompt, most, (3, i, 0), session=(3, i)))
  return asked


def continued(request, sample, observation):
  """The next turn of a conversation."""
  tokens = (*request.tokens, *sample.tokens.tolist(), *observation)
  *path, turn = request.path
  room = min(8, CONTEXT - len(tokens))
  return request._replace(
    tokens=tokens, max_tokens=room, path=(*path, turn + 1)
  )


def check_same(samples, others):
  for a, b in zip(samples, others, strict=True):
    np.testing.assert_array_equal(a.tokens, b.tokens)
    np.testing.assert_allclose(a.logp, b.logp, rtol=0, atol=1e-5)
    assert a.finish == b.finish


def fed(made, *arguments):
  """What `generate` gives, and how many ids were computed for it."""
  before = made.load()['fed']
  samples = made.generate(*arguments)
  return samples, made.load()['fed'] - before


def test_a_sample(made, tiny):
  asked = requests(16)
  samples = fresh(made, tiny).generate(asked, WARM)
  for request, sample in zip(asked, samples, strict=True):
    engine.check_sample(sample, request, WARM)
    assert (sample.tokens.dtype, sample.logp.dtype) == (np.int32, np.float32)
    assert set(sample.versions) == {0}
  assert {s.finish for s in samples} == {engine.STOP, engine.LENGTH}
  assert {int(s.tokens[-1]) for s in samples} >= {0, 1}
  for request, sample in zip(asked, samples):
    if sample.finish == engine.LENGTH:
      assert len(sample.tokens) == request.max_tokens
  assert made.generate([], WARM) == []


def test_without_stop_ids_all_run_to_their_limit(made, tiny):
  asked = requests(16)
  samples = fresh(made, tiny).generate(asked, PLAIN)
  assert [len(s.tokens) for s in samples] == [r.max_tokens for r in asked]
  stopped = made.generate(asked, WARM)
  for long, short in zip(samples, stopped):
    n = len(short.tokens)
    np.testing.assert_array_equal(short.tokens, long.tokens[:n])


def test_the_rest_of_the_call_does_not_matter(made, tiny):
  asked = requests(40)
  wanted = fresh(made, tiny).generate(asked, WARM)  # three passes
  order = np.random.default_rng(1).permutation(40)
  shuffled = fresh(made, tiny).generate([asked[i] for i in order], WARM)
  check_same(shuffled, [wanted[i] for i in order])
  one_by_one = [s for r in asked[::5] for s in made.generate([r], WARM)]
  check_same(one_by_one, wanted[::5])


def test_the_number_of_slots_does_not_matter(made, wide, tiny):
  few = local.LocalEngine(*tiny, slots=3, context=CONTEXT, seed=7)
  asked = requests(40)
  wanted = fresh(made, tiny).generate(asked, WARM)
  check_same(few.generate(asked, WARM), wanted)
  check_same(fresh(wide, tiny).generate(asked, WARM), wanted)
  check_same(fresh(wide, tiny).generate(asked[:5], WARM), wanted[:5])


def test_turns_continue_from_the_cache(made, tiny):
  first = [r._replace(max_tokens=6) for r in requests(16) if len(r.tokens) < 25]
  samples, count = fed(fresh(made, tiny), first, WARM)
  assert count == sum(len(r.tokens) for r in first)
  turns, sampled = [first], [samples]
  for turn in range(3):
    pairs = zip(turns[-1], sampled[-1])
    seen = range(2, 4 + turn)
    turns.append([continued(r, s, seen) for r, s in pairs])
    samples, count = fed(made, turns[-1], WARM)
    # The last sampled token was never fed, then the observation.
    assert count == (3 + turn) * len(first)
    assert [s.cached + 3 + turn for s in samples] == [
      len(r.tokens) for r in turns[-1]
    ]
    sampled.append(samples)
  for asked, samples in zip(turns, sampled):
    check_same(samples, fresh(made, tiny).generate(asked, WARM))


def test_a_changed_history_is_computed_again(made, tiny):
  (request,) = requests(1)
  request = request._replace(tokens=tuple(range(2, 22)), max_tokens=8)
  (sample,) = fresh(made, tiny).generate([request], WARM)
  later = continued(request, sample, [5, 6])
  forged = later._replace(tokens=(9, *later.tokens[1:]))
  shorter = later._replace(tokens=later.tokens[:7])
  asked = (forged, shorter, later, shorter)
  again = [fed(made, [r], WARM) for r in asked]
  # Of the shorter one the first answer's slot holds all but the last token.
  assert [count for _, count in again] == [len(forged.tokens), 1, 3, 1]
  for request, (samples, _) in zip(asked, again):
    check_same(samples, fresh(made, tiny).generate([request], WARM))


def test_one_session_twice_in_a_call(made, tiny):
  (request,) = requests(1)
  request = request._replace(tokens=(4, 5, 6), max_tokens=8)
  twins = [request, request._replace(path=(3, 0, 9))]
  fresh(made, tiny)
  for _ in range(2):
    samples = made.generate(twins, PLAIN)
    assert samples[0].tokens.tolist() != samples[1].tokens.tolist()
    twins = [continued(r, s, [7]) for r, s in zip(twins, samples)]
  alone = [r._replace(session=None) for r in twins]
  check_same(
    made.generate(twins, PLAIN), fresh(made, tiny).generate(alone, PLAIN)
  )


def test_evicted_sessions_are_computed_again(made, tiny):
  asked = [r._replace(max_tokens=4) for r in requests(40) if len(r.tokens) < 40]
  samples = fresh(made, tiny).generate(asked, WARM)
  later = [continued(r, s, [3]) for r, s in zip(asked, samples)]
  sampled = made.generate(later, WARM)
  fresh(made, tiny)
  check_same(
    sampled, made.generate([r._replace(session=None) for r in later], WARM)
  )


def test_new_weights_forget_the_caches(made, wide, tiny):
  request = requests(1)[0]._replace(tokens=(4, 5, 6, 7), max_tokens=8)
  (sample,) = fresh(made, tiny).generate([request], WARM)
  later = continued(request, sample, [3])
  grown = jax.tree.map(lambda x: 1.05 * x, tiny[1])
  made.set_params(grown, 1)
  (second,) = made.generate([later], WARM)
  wide.set_params(grown, 1)
  check_same([second], wide.generate([later._replace(session=None)], WARM))
  assert set(second.versions) == {1}
  (stale,) = fresh(made, tiny).generate([later], WARM)
  assert np.abs(stale.logp[:1] - second.logp[:1]) > 1e-3


def test_a_pass_that_failed_is_not_continued(made, tiny, monkeypatch):
  request = requests(1)[0]._replace(tokens=(4, 5, 6, 7), max_tokens=8)
  (sample,) = fresh(made, tiny).generate([request], WARM)
  later = continued(request, sample, [3])

  def fail(*_):
    raise ValueError('lost')

  with monkeypatch.context() as patch:
    patch.setattr(engine, 'check_sample', fail)
    forged = later._replace(tokens=(9, 9, *later.tokens[2:]))
    with pytest.raises(ValueError, match='lost'):
      made.generate([forged], WARM)
  sampled = made.generate([later], WARM)
  check_same(sampled, fresh(made, tiny).generate([later], WARM))


def test_samples_of_one_prompt_differ(made, tiny):
  even = tiny[0].init(jax.random.key(0))  # close to uniform
  asked = [engine.Request((5, 6), 8, (2, 0, i, 0), (i,)) for i in range(16)]
  runs = []
  for passes in ([asked], [asked[:1], asked[1:6], asked[6:]]):
    made.set_params(even, 0)
    samples = [s for part in passes for s in made.generate(part, PLAIN)]
    runs.append([tuple(s.tokens.tolist()) for s in samples])
  assert len(set(runs[0])) == 16
  assert runs[0] == runs[1]


def test_greedy_as_the_slow_twin(made, tiny):
  model, params = tiny

  @jax.jit
  def logits(tokens, n):
    positions = np.arange(CONTEXT)[None]
    segments = (positions < n).astype(np.int32)
    hidden = model.apply(params, tokens[None], positions, segments)
    return model.logits(params, hidden[0, n - 1])

  asked = [r._replace(max_tokens=5) for r in requests(3)]
  samples = fresh(made, tiny).generate(asked, engine.Sampling(temperature=0))
  assert len({tuple(s.tokens.tolist()) for s in samples}) == 3
  for request, sample in zip(asked, samples):
    row = np.zeros(CONTEXT, np.int32)
    tokens, logp = list(request.tokens), []
    for _ in range(5):
      row[: len(tokens)] = tokens
      scores = np.array(logits(row, len(tokens)), float)
      tokens.append(int(scores.argmax()))
      logp.append(-np.log(np.sum(np.exp(scores - scores.max()))))
    assert sample.tokens.tolist() == tokens[-5:]
    np.testing.assert_allclose(sample.logp, logp, atol=1e-5)


def test_truncated_sampling(made, tiny):
  asked = requests(16)
  narrow = PLAIN._replace(top_k=1)
  samples = fresh(made, tiny).generate(asked, narrow)
  for sample, greedy in zip(
    samples, made.generate(asked, PLAIN._replace(temperature=0))
  ):
    np.testing.assert_array_equal(sample.tokens, greedy.tokens)
    np.testing.assert_array_equal(sample.logp, 0)


def test_compiles(wide, tiny):
  asked = requests(70, seed=2)
  for n in (1, 2, 5, 8, 9, 32, 33, 34, 70):
    wide.generate(asked[:n], WARM)
  for path in [(1,), (1, 2), (1, 2, 3, 4, 5)]:
    wide.generate([asked[0]._replace(path=path)], WARM)
  fresh(wide, tiny).generate(asked, WARM._replace(temperature=0.5))
  for n, temperature in [(1, 0.5), (7, 1.0), (8, 1.0), (9, 1.5), (70, 1.0)]:
    wide.score([r.tokens for r in asked[:n]], temperature)
  # One for each number of rows: 33 and 8, and a single one that is fed.
  assert wide.compiles() == {
    'engine_feed': 3,
    'engine_generate': 2,
    'engine_score': 2,
  }


def test_compiles_of_wide_caches(tiny):
  """One for each width as well, 64 and the context, and no more."""
  made = local.LocalEngine(*tiny, slots=8, context=100, seed=7)
  for n, most in [(3, 5), (50, 30), (70, 8), (40, 9), (5, 90), (90, 10)]:
    made.generate([engine.Request((4,) * n, most, (n,))] * 3, PLAIN)
  assert made.compiles()['engine_generate'] == 2
  # Of one row or eight, which may be copies.
  assert made.compiles()['engine_feed'] <= 4


def test_a_narrow_cache_changes_no_bit(tiny):
  """Rows beside a long one are read as wide as it is."""
  made = local.LocalEngine(*tiny, slots=8, context=128, seed=7)
  asked = [engine.Request((4, 5, i), 20, (1, i)) for i in range(4)]
  alone = made.generate(asked, WARM)
  long = engine.Request(tuple(range(2, 30)) * 3, 20, (2,) * 2)
  made.set_params(tiny[1], 0)
  *beside, _ = made.generate([*asked, long], WARM)
  for a, b in zip(alone, beside):
    np.testing.assert_array_equal(a.tokens, b.tokens)
    np.testing.assert_array_equal(a.logp, b.logp)


def test_rows_that_ended_leave_the_batch(tiny):
  """Eight long rows of 32 go on in a batch of eight."""
  made = local.LocalEngine(*tiny, slots=32, context=CONTEXT, seed=7)
  asked = [
    engine.Request((4, 5, i), 50 if i % 4 else 6, (1, i)) for i in range(32)
  ]
  asked = [r._replace(max_tokens=56 - r.max_tokens) for r in asked]
  samples = made.generate(asked, PLAIN)
  assert [len(s.tokens) for s in samples] == [50, 6, 6, 6] * 8
  assert made.compiles()['engine_generate'] == 2
  alone = [made.generate([r], PLAIN)[0] for r in asked[:5]]
  check_same(alone, samples[:5])


def test_errors(made, tiny):
  model, params = tiny
  with pytest.raises(ValueError, match='129 tokens exceeds the 128 .* at most'):
    local.LocalEngine(model, params, slots=1, context=129, seed=0)
  with pytest.raises(ValueError, match='0 slots; set engine.slots to 1 or m'):
    local.LocalEngine(model, params, slots=0, context=8, seed=0)
  full = engine.Request((3,) * CONTEXT, 1, (0,))
  with pytest.raises(ValueError, match='64 tokens, .* holds 63; give 1 to 63'):
    made.generate([full], WARM)
  with pytest.raises(ValueError, match='holds id 32, but the model knows ids'):
    made.generate([full._replace(tokens=(32,))], WARM)
  with pytest.raises(ValueError, match='top_p is 0'):
    made.generate([full._replace(tokens=(3,))], WARM._replace(top_p=0.0))
  with pytest.raises(ValueError, match='sequence 1 has 65 tokens'):
    made.score([(3,), (3,) * 65], temperature=1.0)
  with pytest.raises(ValueError, match='temperature is 0; give one above 0'):
    made.score([(3,)], temperature=0)


def test_broken_weights_are_noticed(made, tiny):
  made.set_params(jax.tree.map(lambda x: x * np.float32(np.nan), tiny[1]), 2)
  with pytest.raises(ValueError, match='not all finite .* look at its weights'):
    made.generate(requests(2), WARM)
