"""Known faults of samplers: budgets, aborts, randomness."""

import asyncio
import warnings

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
import served

from arl import episode
from arl.models import (
  sizes,
  transformer,
)
from arl.rollout import asynchronous, engine, local, sampler, strategies
from experiments.studies import pretend

pytestmark = pytest.mark.usefixtures('compiled_once')
PLAIN = engine.Sampling()


LIMITS = plain.ROOMY._replace(context=100, response_tokens=60, turn_tokens=60)
THIRTY = ' '.join(['1'] * 30)


def test_41_what_was_sampled_counts_when_it_goes_on():
  said = plain.Canned(
    plain.sample([5] * 25, finish=engine.ABORT), plain.sample([5, 2])
  )
  plain.roll_out(said, plain.env(), THIRTY, limits=LIMITS)
  assert [r.max_tokens for r in said.calls] == [60, 35]


def test_41_a_later_turn_has_what_the_turns_before_left():
  said = plain.Canned(plain.sample([5] * 24 + [2]), plain.sample([5, 2]))
  plain.roll_out(said, plain.env('7'), THIRTY, limits=LIMITS)
  assert [r.max_tokens for r in said.calls] == [60, 35]


class Wordy:
  """Says as many tokens as it likes, up to what it is asked for."""

  def __init__(self, lengths, stops):
    self.lengths, self.stops, self.calls = list(lengths), list(stops), []

  def generate(self, requests, sampling):
    del sampling
    self.calls += requests
    return [self.answer(request) for request in requests]

  def answer(self, request):
    wanted = self.lengths.pop(0) if self.lengths else 1
    stops = self.stops.pop(0) if self.stops else True
    n = min(wanted, request.max_tokens)
    ids = [5] * n
    if stops and n == wanted:
      ids[-1] = plain.END
      return plain.sample(ids)
    if n == request.max_tokens:
      return plain.sample(ids, finish=engine.LENGTH)
    return plain.sample(ids, finish=engine.ABORT)


@hypothesis.settings(deadline=None, max_examples=80)
@hypothesis.given(
  prompt=st.integers(1, 40),
  lengths=st.lists(st.integers(1, 40), max_size=9),
  stops=st.lists(st.booleans(), max_size=9),
  seen=st.lists(st.integers(1, 40), max_size=5),
  limits=st.tuples(st.integers(1, 40), st.integers(41, 90), st.integers(1, 60)),
)
def test_41_no_request_asks_for_more_than_is_left(
  prompt, lengths, stops, seen, limits
):
  turn, context, response = limits
  said = Wordy(lengths, stops)
  world = plain.env(*(' '.join(['7'] * n) for n in seen))
  (one,) = plain.roll_out(
    said,
    world,
    ' '.join(['1'] * prompt),
    limits=plain.ROOMY._replace(
      turn_tokens=turn, context=context, response_tokens=response
    ),
  )
  assert len(one.tokens) <= context
  assert one.mask.sum() <= response
  for request in said.calls:
    assert request.max_tokens >= 1
    assert len(request.tokens) + request.max_tokens <= context
    sampled = sum(i in (5, plain.END) for i in request.tokens)
    assert request.max_tokens + sampled <= response
  assert one.status in episode.GRADED
  assert not one.mask[np.isin(one.tokens, (1, 7))].any()


def counting():
  """An environment, and the actions that it was asked to grade."""
  graded = []

  def step(state, text):
    graded.append(text)
    return state, episode.Turn('', 1.0, True)

  return plain.env()._replace(step=step), graded


def test_42_what_is_broken_off_goes_on_and_is_graded_once():
  world, graded = counting()
  first = plain.sample([1, 2, 3], [-0.1, -0.2, -0.3], engine.ABORT, 7)
  said = plain.Canned(first, plain.sample([4, 5], [-0.4, -0.5], version=8))
  (one,) = plain.roll_out(said, world, '9', stop=(5,))
  assert one.tokens[one.mask].tolist() == [1, 2, 3, 4, 5]
  np.testing.assert_allclose(one.logp[one.mask], [-0.1, -0.2, -0.3, -0.4, -0.5])
  versions = one.extras['rollout_version'][one.mask]
  assert versions.tolist() == [7, 7, 7, 8, 8]
  assert graded == ['1 2 3 4']


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(st.lists(st.integers(0, 4), max_size=6), st.integers(1, 5))
def test_42_aborts_at_any_token_lose_none(pieces, last):
  world, graded = counting()
  whole = list(range(10, 10 + sum(pieces) + last - 1)) + [plain.END]
  at, parts = 0, []
  for version, n in enumerate(pieces):
    parts.append(
      plain.sample(whole[at : at + n], finish=engine.ABORT, version=version)
    )
    at += n
  parts.append(plain.sample(whole[at:], version=len(pieces)))
  (one,) = plain.roll_out(plain.Canned(*parts), world, '9')
  assert one.tokens[one.mask].tolist() == whole
  told = sum(([v] * n for v, n in enumerate([*pieces, last])), [])
  assert one.extras['rollout_version'][one.mask].tolist() == told
  assert len(graded) == 1


REQUEST = engine.Request((1, 2, 3), 4, (0, 0))


def aborted(answer, ids):
  """An answer that ends with an abort and these of its ids."""
  meta = answer['meta_info']
  entries = meta['output_token_logprobs'][: len(answer['output_ids'])]
  answer['output_ids'] = answer['output_ids'][ids]
  meta.update(
    output_token_logprobs=entries[ids],
    completion_tokens=len(answer['output_ids']),
    output_token_logprobs_length=len(answer['output_ids']),
    finish_reason={'type': 'abort', 'message': 'Aborted'},
    weight_versions=[
      {'version': '0', 'start': 0, 'end': len(answer['output_ids'])}
    ],
  )
  return answer


def test_42_a_stream_that_ends_with_its_last_token_alone_keeps_all():
  with served.serving() as (client, _, (model,)):
    model.twist = lambda body, answer: aborted(answer, slice(2, 3))

    async def pieces():
      return [piece async for piece in client.stream(REQUEST, PLAIN)]

    *_, before, last = asyncio.run(pieces())
  assert last.finish == engine.ABORT
  np.testing.assert_array_equal(last.tokens, before.tokens)
  assert len(last.tokens) == 3


def test_42_one_aborted_in_the_queue_is_empty_and_asked_again():
  with served.serving() as (client, _, (model,)):
    queue = [slice(0, 0)]

    def twist(body, answer):
      return aborted(answer, queue.pop()) if queue else answer

    model.twist = twist
    world, graded = counting()
    (one,) = plain.roll_out(
      client, world, '1 2 3', limits=LIMITS._replace(turn_tokens=4),
      stop=tuple(range(pretend.VOCAB)),
    )  # fmt: skip
  assert one.mask.sum() == 1 and len(graded) == 1


def test_42_what_is_given_up_does_not_run_on():
  long = engine.Request((1,), 400, (0,))
  with served.serving(pace=0.05) as (client, _, (model,)):

    async def give_up():
      await asyncio.wait_for(client.sample(long, PLAIN), 0.4)

    with pytest.raises(TimeoutError):
      asyncio.run(give_up())
    served.wait_for(lambda: not model.running)
    paths = [path for path, _ in model.calls]
  assert '/abort_request' in paths


def uniform():
  """A model for which 50 tokens are equally likely."""
  model = transformer.make(sizes.tiny(50)._replace(layers=1))
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  return model, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)


def drawn(asked):
  """What an engine of seed 7 samples of requests, by their paths."""
  made = local.LocalEngine(*uniform(), slots=4, context=16, seed=7)
  samples = made.generate(asked, PLAIN)
  return {r.path: tuple(s.tokens.tolist()) for r, s in zip(asked, samples)}


def test_44_seeds_are_of_requests_not_of_engines():
  asked = [
    engine.Request((1, 2), 8, (0, prompt, one))
    for prompt in range(4)
    for one in range(4)
  ]
  whole = drawn(asked)
  assert len(set(whole.values())) == 16
  some = drawn(asked[::-3])  # another replica, asked for some, in their order
  assert some == {path: whole[path] for path in some}


FOLD = jax.jit(lambda seed, rows: jax.random.key_data(sampler.fold(seed, rows)))


@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(
  st.integers(0, 2**31 - 1),
  st.lists(
    st.tuples(*[st.integers(0, 2**31 - 1)] * 3),
    min_size=6,
    max_size=6,
    unique=True,
  ),
  st.permutations(range(6)),
)
def test_44_other_paths_other_keys_whatever_is_beside(seed, paths, order):
  rows = np.array(paths, np.int32)
  keys = np.asarray(FOLD(seed, rows))
  assert len({tuple(key) for key in keys.tolist()}) == len(paths)
  np.testing.assert_array_equal(FOLD(seed, rows[order]), keys[order])


WAYS = (strategies.multi_turn, asynchronous.multi_turn)


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize(
  'logp, temperature, told',
  [(-np.log(50), 1.0, True), (-0.1, 1.0, False), (-np.log(50), 0.0, False)],
)
def test_44_copies_beyond_chance_are_told(way, logp, temperature, told):
  """Two of a group are one by the engine's own account of its odds."""
  same = plain.sample([7] * 11 + [plain.END], [logp] * 12)
  plan = strategies.Plan(
    2, engine.Sampling(temperature=temperature), plain.ROOMY, (0,)
  )
  with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter('always')
    way(
      plain.Canned(same, same), plain.env(), plain.chat(), [plain.task('1')],
      plan,
    )  # fmt: skip
  found = [w for w in heard if 'one seed' in str(w.message)]
  assert bool(found) == told


@pytest.mark.parametrize('count', [1, 2, 4])
def test_44_each_server_is_given_a_seed_a_request(count):
  with served.serving(count=count) as (client, _, models):
    group = [engine.Request((1, 2), 8, (0, 0, i)) for i in range(16)]
    samples = client.generate(group, PLAIN)
    bodies = [b for model in models for b in served.asked(model)[2:]]
  assert len({tuple(sample.tokens.tolist()) for sample in samples}) == 16
  seeds = {body['sampling_params']['sampling_seed'] for body in bodies}
  assert len(seeds) == 16
  assert not any('n' in body['sampling_params'] for body in bodies)
