"""Known faults of samplers: weights, versions, budgets, aborts, randomness."""

import asyncio
import functools
import json
import warnings

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
import served
import tiny
from safetensors import numpy as safetensors

from arl import episode
from arl.models import (
  hf,
  hf_config,
  hf_files,
  lora,
  rope,
  sizes,
  tokenizers,
  transformer,
)
from arl.rollout import asynchronous, engine, local, sampler, strategies
from arl.rollout.sglang import worker as sglang_worker
from arl.train import (
  batch,
  checkpoint,
  engines,
  export,
  loading,
  sync,
)
from experiments.studies import pretend

pytestmark = pytest.mark.usefixtures('compiled_once')
PLAIN = engine.Sampling()


@pytest.fixture(scope='module')
def policy():
  """A model, its weights, and an engine that holds others by turns."""
  model, params = plain.uneven()
  return model, params, local.LocalEngine(
    model, params, slots=2, context=32, seed=3
  )  # fmt: skip


def scaled(params, factor):
  return jax.tree.map(lambda x: x * jnp.asarray(factor, x.dtype), params)


PROMPT = (4, 5, 6, 7)


def test_35_nothing_of_old_weights_is_used_after_new_ones(policy):
  model, params, said = policy
  request = engine.Request(PROMPT, 6, (0, 0), session='s')
  said.set_params(params, 0)
  said.generate([request], PLAIN)
  (again,) = said.generate([request], PLAIN)
  assert again.cached > 0
  said.set_params(scaled(params, 1.05), 1)
  (after,) = said.generate([request], PLAIN)
  fresh = local.LocalEngine(
    model, scaled(params, 1.05), slots=2, context=32, seed=3
  )
  (want,) = fresh.generate([request], PLAIN)
  assert after.cached == 0 and set(after.versions.tolist()) == {1}
  np.testing.assert_array_equal(after.tokens, want.tokens)
  np.testing.assert_allclose(after.logp, want.logp, atol=1e-5)


@hypothesis.settings(deadline=None, max_examples=10)
@hypothesis.given(
  st.lists(
    st.one_of(
      st.floats(0.5, 2.0).map(lambda x: ('update', x)),
      st.integers(1, 3).map(lambda n: ('turn', n)),
    ),
    min_size=2,
    max_size=6,
  )
)
def test_35_after_any_updates_log_probs_are_of_the_weights_held(policy, story):
  """Turns of one session between updates, against a pass without a cache."""
  _, params, said = policy
  said.set_params(params, 0)
  row, version, updated = list(PROMPT), 0, True
  for what, x in story:
    if what == 'update':
      version, updated = version + 1, True
      said.set_params(scaled(params, x), version)
      continue
    request = engine.Request(tuple(row), x, (version,), session='one')
    (sample,) = said.generate([request], PLAIN)
    assert not (updated and sample.cached)
    (whole,) = said.score([[*row, *sample.tokens.tolist()]], 1.0)
    np.testing.assert_allclose(sample.logp, whole[len(row) :], atol=1e-4)
    assert set(sample.versions.tolist()) == {version}
    row, updated = [*row, *sample.tokens.tolist()], False


@pytest.mark.parametrize('mode', engine.PAUSES)
def test_35_in_every_pause_a_new_request_starts_from_nothing(policy, mode):
  model, params, _ = policy
  made = engines.InFlight(model, params, mode=mode, slots=2, context=32, seed=3)
  try:
    request = engine.Request(PROMPT, 6, (0, 0), session='s')
    made.generate([request], PLAIN)
    made.set_params(scaled(params, 1.05), 1)
    (after,) = made.generate([request], PLAIN)
    (whole,) = made.score([[*PROMPT, *after.tokens.tolist()]], 1.0)
  finally:
    made.close()
  assert after.cached == 0
  np.testing.assert_allclose(after.logp, whole[len(PROMPT) :], atol=1e-4)


SERVED = sizes.tiny(pretend.VOCAB)._replace(layers=1)
IDS = list(range(2, 40, 3))


@functools.cache
def weights(value):
  """Parameters of which a server that pretends looks at one number."""
  shapes = jax.eval_shape(transformer.make(SERVED).init, jax.random.key(0))
  made = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
  made['norm']['scale'] = np.full_like(made['norm']['scale'], value)
  return made


PROBE = sync.Probe(
  IDS,
  lambda params: np.array(
    pretend.logp(float(params['norm']['scale'][0]), IDS), np.float32
  ),
  1e-4,
)


def publish(client, params, folder, **how):
  sync.disk(client, params, 1, size=SERVED, folder=folder, probe=PROBE, **how)


@pytest.mark.parametrize('mode', sync.MODES)
def test_35_a_server_forgets_or_the_run_stops(mode, tmp_path):
  request = engine.Request((1, 2, 3), 4, (0,))
  with served.serving() as (client, _, (model,)):
    client.generate([request], PLAIN)
    assert client.generate([request], PLAIN)[0].cached
    publish(client, weights(0.5), tmp_path, mode=mode)
    assert client.generate([request], PLAIN)[0].cached == 0

  def stale(body):  # takes the weights and keeps what the old ones computed
    pretend.Pretend._update_weights_from_disk(model, body)
    model.cache.add(('arl-probe', *IDS))
    return {'success': True}

  if mode == sync.IN_PLACE:  # there nothing is to be forgotten
    return
  with served.serving() as (client, _, (model,)):
    model._update_weights_from_disk = stale
    with pytest.raises(sync.SyncError, match='kept .* tokens of the probe'):
      publish(client, weights(0.5), tmp_path, mode=mode)


ADAPTER = {
  'kernel': jnp.eye(2),
  'lora': {
    'down': jnp.ones((2, 1)),
    'up': jnp.float32([[1, 0]]),
    'scale': jnp.float32(2),
  },
}


def test_36_the_sum_is_made_once():
  whole = lora.merged({'q': ADAPTER})
  kernel = whole['q']['kernel']
  np.testing.assert_array_equal(kernel.T, [[3, 2], [0, 1]])
  np.testing.assert_array_equal(jnp.float32([1, 0]) @ kernel, [3, 0])
  again = lora.merged(whole)['q']
  np.testing.assert_array_equal(again['kernel'], kernel)
  assert lora.ADAPTER not in again


@pytest.fixture(scope='module')
def adapted(policy):
  """The policy with adapters that have learnt something."""
  _, params, _ = policy
  made = lora.add(
    params, jax.random.key(0), rank=2, alpha=4.0, targets='.*/(query|up)'
  )
  learnt = lambda path, x: x + 0.3 if path[-1].key == 'up' else x
  return jax.tree_util.tree_map_with_path(
    lambda path, x: learnt(path, x) if 'lora' in str(path) else x, made
  )


def test_36_what_adapters_learn_reaches_the_sampler(policy, adapted):
  model, params, said = policy
  sums = export.policy_params(adapted)
  assert checkpoint.fingerprint(sums) != checkpoint.fingerprint(params)
  said.set_params(sums, 1)
  rolled = plain.roll_out(
    said,
    plain.env('3'),
    '6 7',
    limits=plain.ROOMY._replace(context=32, turn_tokens=9),
    samples=2,
  )
  columns = plain.columns(rolled, width=32)
  _, agreed = plain.scored(model, adapted, columns)
  assert agreed['mismatch/max'] < 1e-4
  _, base = plain.scored(model, params, columns)
  assert base['mismatch/max'] > 0.05  # the frozen base would be seen


def lost(model, body):  # success, and the new version, without the weights
  return model._updated(body)


def test_36_servers_get_the_sum_and_no_adapters(tmp_path):
  params = weights(0.5)
  made = lora.add(
    params, jax.random.key(0), rank=2, alpha=4.0, targets='.*/query'
  )
  with served.serving() as (client, _, (model,)):
    publish(client, made, tmp_path)
    sent = safetensors.load_file(tmp_path / 'version-1' / 'model.safetensors')
    assert not any('lora' in name for name in sent)
    assert model.weight == 0.5
  with served.serving() as (client, _, (model,)):
    model._update_weights_from_disk = functools.partial(lost, model)
    with pytest.raises(sync.SyncError, match='differ from the trainer by 0.5'):
      publish(client, made, tmp_path)


def test_36_a_sampler_that_was_not_updated_stops_the_run():
  said = plain.Canned(plain.sample([5, 2], version=3))
  rolled = plain.roll_out(said, plain.env())
  batch.check_versions(rolled, 3)
  with pytest.raises(RuntimeError, match='was given version 4'):
    batch.check_versions(rolled, 4)


HEADED = sizes.tiny(3)._replace(
  width=2, layers=1, heads=1, kv_heads=1, head_dim=2, mlp_width=2
)
EMBED = np.float32([[1, 0], [0, 2], [1, 1]])
HEAD = np.float32([[0, 1], [1, 0], [1, -1]])


def folder_of(path, *, tied, head, nested):
  """A model folder whose flag of tying stands at the top or below."""
  size = HEADED._replace(tied=tied)
  params = transformer.make(size).init(jax.random.key(0))
  params['embed']['embedding'] = jnp.asarray(EMBED)
  if not tied:
    params['head']['embedding'] = jnp.asarray(HEAD)
  hf.save(path, jax.device_get(params), size)
  told = json.loads((path / 'config.json').read_text())
  told.pop('tie_word_embeddings', None)
  (told.setdefault('text_config', {}) if nested else told)[
    'tie_word_embeddings'
  ] = tied
  (path / 'config.json').write_text(json.dumps(told))
  file = path / 'model.safetensors'
  tensors = safetensors.load_file(file)
  if not head:
    tensors.pop('lm_head.weight', None)
  safetensors.save_file(tensors, file)
  return path


@pytest.mark.parametrize(
  'tied, head, nested, want',
  [
    (True, False, True, [2, 6, 5]),
    (True, False, False, [2, 6, 5]),
    (False, True, True, [3, 2, -1]),
    (False, True, False, [3, 2, -1]),
  ],
)
def test_38_the_head_is_the_one_of_the_file(tmp_path, tied, head, nested, want):
  path = folder_of(tmp_path / 'm', tied=tied, head=head, nested=nested)
  loaded = hf.load(path)
  logits = loaded.model.logits(loaded.params, jnp.float32([2, 3]))
  np.testing.assert_array_equal(logits, want)
  # One parameter, one gradient and one tensor on its way to a sampler.
  assert ('head' in loaded.params) == head
  hf.save(tmp_path / 'sent', jax.device_get(loaded.params), loaded.sizes)
  sent = hf_files.read(tmp_path / 'sent')
  assert ('lm_head.weight' in sent) == head
  tiny.same(hf.from_tensors(sent, loaded.sizes), loaded.params)


def test_38_a_head_that_is_missing_is_an_error(tmp_path):
  path = folder_of(tmp_path / 'm', tied=False, head=False, nested=True)
  with pytest.raises(ValueError, match=r"missing \['lm_head.weight'\]"):
    hf.load(path)


def three_letters():
  """A tokenizer of three ids."""
  made = tiny.tokenizer()
  few = {'_': 0, '!': 1, 'a': 2}
  made.get_vocab = lambda: few
  return made


def test_39_rows_without_a_token_get_no_mass_and_are_not_sampled():
  model = tokenizers.known(three_letters(), plain.table(5))
  assert model.vocab == 3
  logits = jnp.zeros((1, 4, 5)).at[0, 0].set(jnp.float32([-3, -1, -2, 0, 0]))
  one = plain.made([0, 1], [0, 1])
  made, _ = plain.scored(
    model, {'logits': logits}, plain.columns([one], width=4)
  )
  np.testing.assert_allclose(made['old_logp'][0, 1], -0.40761, atol=1e-5)
  rows = jnp.broadcast_to(model.logits(None, logits[:, 0]), (10_000, 3))
  ids, logp = jax.jit(sampler.choose, static_argnums=2)(
    rows,
    sampler.fold(0, np.arange(10_000)[:, None]),
    sampler.Rule(False, False),
    *(jnp.float32(1), jnp.float32(1), jnp.int32(0)),
  )
  assert set(ids.tolist()) == {0, 1, 2}
  np.testing.assert_allclose(logp[ids == 1], -0.40761, atol=1e-5)


@pytest.fixture(scope='module')
def padded_folder(tmp_path_factory):
  """A policy of 12 rows, of which 4 beyond its tokenizer would always win."""
  folder = tmp_path_factory.mktemp('padded') / 'model'
  shape = tiny.size(12)._replace(tied=False)
  tiny.write_model(folder, shape=shape)
  file = folder / 'model.safetensors'
  tensors = safetensors.load_file(file)
  rng = np.random.default_rng(0)
  head = rng.normal(size=tensors['lm_head.weight'].shape).astype(np.float32)
  head[8:] *= 30
  safetensors.save_file({**tensors, 'lm_head.weight': head}, file)
  return folder


def test_39_a_run_knows_the_ids_of_its_tokenizer_alone(padded_folder):
  block = tiny.config(padded_folder).model
  loaded, tokenizer = loading.load_model(block, 0)
  assert loaded.model.vocab == len(tokenizer) == 8
  assert loaded.sizes.vocab == 12  # all rows are kept, and saved
  said = local.LocalEngine(
    loaded.model, loaded.params, slots=4, context=24, seed=0
  )
  asked = [engine.Request((2, 3), 20, (i,)) for i in range(8)]
  samples = said.generate(asked, PLAIN)
  ids = np.concatenate([sample.tokens for sample in samples])
  assert ids.max() < 8
  rolled = [
    plain.made(
      [2, 3, *s.tokens], [0, 0] + [1] * 20, logp=[0, 0, *s.logp], id=str(i)
    )
    for i, s in enumerate(samples)
  ]
  _, agreed = plain.scored(
    loaded.model, loaded.params, plain.columns(rolled, width=24)
  )
  assert agreed['mismatch/max'] < 1e-4
  with pytest.raises(ValueError, match='ids 0 to 7'):
    said.generate([engine.Request((8,), 1, (0,))], PLAIN)


CONFIG = {
  'model_type': 'llama',
  'vocab_size': 97,
  'hidden_size': 16,
  'intermediate_size': 48,
  'num_hidden_layers': 2,
  'num_attention_heads': 4,
  'rms_norm_eps': 1e-6,
  'max_position_embeddings': 128,
}
LINEAR = {'rope_type': 'linear', 'factor': 4.0}
SPELLINGS = (
  {'rope_theta': 10_000.0, 'rope_scaling': LINEAR},
  {'rope_parameters': {'rope_theta': 10_000.0, **LINEAR}},
)


def angles(settings, head_dim, position):
  cos, sin = rope.tables(settings, head_dim, jnp.int32([position]))
  return np.arctan2(sin, cos)[0]


@pytest.mark.parametrize('spelling', SPELLINGS)
def test_40_both_spellings_turn_as_far(spelling):
  size = hf_config.to_sizes({**CONFIG, **spelling})
  np.testing.assert_allclose(angles(size.rope, 4, 8), [2, 0.02], rtol=1e-5)


@pytest.mark.parametrize(
  'wrong',
  [
    {'rope_scaling': {'rope_type': 'dynamic', 'factor': 2.0}},
    {'rope_scaling': {**LINEAR, 'beta_fast': 32}},
    {'rope_scaling': LINEAR, 'rope_parameters': {'rope_type': 'default'}},
    {'rope_theta': 5.0, 'rope_parameters': {'rope_theta': 7.0}},
  ],
)
def test_40_what_is_not_read_is_refused(wrong):
  with pytest.raises(ValueError, match='rope'):
    hf_config.to_sizes({**CONFIG, **wrong})


SCALED = {'factor': 4.0, 'original_max_position_embeddings': 1024}
TYPES = st.one_of(
  st.just({'type': 'default'}),
  st.just({'type': 'linear', 'factor': 4.0}),
  st.just({'type': 'llama3', **SCALED}),
  st.just({'type': 'yarn', **SCALED}),
)


@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(TYPES, st.floats(100, 1e6), st.integers(0, 4095))
def test_40_settings_survive_a_folder_and_hold_far_out(kind, theta, position):
  settings = sizes.Rope(theta, **kind)
  size = sizes.tiny()._replace(rope=settings)
  assert (
    hf_config.to_sizes(hf_config.from_sizes(size, 'float32')).rope == settings
  )
  radians, factor = rope.frequencies(settings, 8)
  for at in (0, 8, position, 2048, 4095):
    cos, sin = rope.tables(settings, 8, jnp.int32([at]))
    exact = np.float32(radians) * np.float64(at)
    np.testing.assert_allclose(cos[0], factor * np.cos(exact), atol=2e-3)
    np.testing.assert_allclose(sin[0], factor * np.sin(exact), atol=2e-3)


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


def test_39_an_id_that_no_model_has_is_an_error():
  """Of a server: what it samples is looked at before it is kept."""

  def twist(body, answer):
    answer['output_ids'][0] = pretend.VOCAB
    return answer

  with served.serving() as (client, _, (model,)):
    model.twist = twist
    with pytest.raises(sglang_worker.ServerError, match='none of 64 ids'):
      client.generate([REQUEST], PLAIN)
