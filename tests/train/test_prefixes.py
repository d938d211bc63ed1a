"""What sequences share is computed once, and nothing comes out otherwise."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest
import tiny

from arl import columns as columns_lib
from arl import levels
from arl.models import critics, heads, sizes, transformer
from arl.train import build, forward, prefixes
from experiments import recipes

ROWS, WIDTH, PLACES = 8, 12, 48
SIZE = sizes.tiny(8)._replace(tied=False, width=16, mlp_width=16)
MOE = sizes.tiny_moe(8)._replace(layers=2, width=16)
WANT = frozenset(
  {'logp', 'entropy', 'value', 'value_after', 'features', 'likeliest_logp'}
)
# A clipped loss with a KL, a ratio of sequences, one with a critic, one with a
# correction, one that compares a group, and a regression.
METHODS = 'grpo', 'gspo', 'ppo', 'mis', 'conspo', 'kimi_omd'


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
  monkeypatch.setattr(prefixes, 'BLOCK', 4)


def batch(sequences, masks, seed=0):
  """Sequences as columns, two a row where they fit; all of two groups."""
  shape = ROWS, WIDTH
  made = {
    name: np.zeros(shape, np.int32)
    for name in ('tokens', 'positions', 'segments', 'seq', 'group', 'turn')
  }
  made['mask'] = np.zeros(shape, bool)
  row, at, segment = 0, 0, 0
  for i, (one, mask) in enumerate(zip(sequences, masks)):
    n = len(one)
    if at + n > WIDTH:
      row, at, segment = row + 1, 0, 0
    here, segment = (row, slice(at, at + n)), segment + 1
    made['tokens'][here], made['positions'][here] = one, np.arange(n)
    made['segments'][here], made['seq'][here] = segment, i
    made['group'][here], made['turn'][here] = i % 2, 2 * i + np.arange(n) // 5
    made['mask'][here] = np.asarray(mask[:n]) & (np.arange(n) > 0)
    at += n
  rng = np.random.default_rng(seed)
  for name in columns_lib.COLUMNS:
    if columns_lib.COLUMNS[name].shape == '[B, T]' and 'logp' in name:
      made[name] = -rng.exponential(1, shape).astype(np.float32)
  made['rewards'] = rng.normal(size=shape).astype(np.float32)
  made['old_value'] = rng.normal(size=shape).astype(np.float32)
  made |= {'iteration': np.float32(3), 'progress': np.float32(0.4)}
  for name, num in (('seq', ROWS), ('group', ROWS), ('turn', 2 * ROWS)):
    made[name] = levels.Level(made[name], num)
  return made


def shared(columns):
  """The columns with the trie of all rows, of one length for all of them."""
  placed = prefixes.place(columns, ROWS)
  places = placed[prefixes.PLACES].reshape(-1)
  assert len(places) <= ROWS * PLACES
  full = np.full(ROWS * PLACES, -1, np.int32)
  full[: len(places)] = places
  return {**columns, **placed, prefixes.PLACES: full.reshape(ROWS, -1)}


SEQUENCES = st.lists(
  st.tuples(
    st.lists(st.integers(0, 1), min_size=1, max_size=WIDTH),
    st.lists(st.booleans(), min_size=WIDTH, max_size=WIDTH),
  ),
  min_size=1,
  max_size=ROWS,
)
ON, OFF = [True] * WIDTH, [False] * WIDTH
LONG = [1, 0, 1, 1, 0, 1, 0, 0, 1, 1]
# One begins another, two are alike, and what one trains the other does not.
HARD = [
  (LONG, ON),
  (LONG[:4], OFF),
  (LONG, OFF),
  (LONG[:6] + [3, 3], ON),
  (LONG[:6] + [3], [False, True] * 6),
  ([3], OFF),
  ([3, 3], ON),
]


@functools.cache
def policy(size=SIZE, *, critic='', bins=0):
  """A model and uneven parameters with a value head."""
  model, rng = transformer.make(size), np.random.default_rng(0)
  params = jax.eval_shape(model.init, jax.random.key(0))
  params = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), params)
  params = heads.with_value_head(params, size.width, bins)
  if critic:
    params = critics.with_trunk(params)
  draw = lambda x: jnp.asarray(0.3 * rng.normal(size=x.shape), x.dtype)
  return model, jax.tree.map(draw, params)


def columns_of(drawn):
  sequences, masks = zip(*drawn)
  return batch(sequences, masks)


def assert_equal(one, other, atol=1e-5):
  assert one.keys() == other.keys()
  for name, x in one.items():
    np.testing.assert_allclose(other[name], x, 1e-5, atol, err_msg=name)


# --- The trie -----------------------------------------------------------------


@hypothesis.given(SEQUENCES)
@hypothesis.example(HARD)
@hypothesis.settings(deadline=None)
def test_the_trie_has_each_beginning_once_and_paths_lead_to_it(drawn):
  columns = columns_of(drawn)
  placed = prefixes.place(columns, ROWS)
  beginnings = {
    tuple(one[:n]) for one, _ in drawn for n in range(1, len(one) + 1)
  }
  there = placed[prefixes.PLACES].reshape(-1) >= 0
  assert there.sum() == len(beginnings)
  total = sum(len(one) for one, _ in drawn)
  np.testing.assert_allclose(
    prefixes.share(columns, placed), len(beginnings) / total
  )
  made = jax.device_get(prefixes.merged({**columns, **placed}))
  flat = {name: x.reshape(-1) for name, x in made.items() if name != 'paths'}
  found, trained = {}, set()
  for row, at in zip(*np.nonzero(columns['segments'])):
    depth = columns['positions'][row, at]
    begin = tuple(columns['tokens'][row, at - depth : at + 1].tolist())
    node = placed[prefixes.NODES][row, at]
    assert found.setdefault(begin, node) == node
    assert flat['tokens'][node] == begin[-1]
    assert flat['positions'][node] == depth
    if depth:
      assert flat['before'][node] == found[begin[:-1]]
    if columns['mask'][row, at]:
      trained.add(int(node))
    path = made['paths'][node // prefixes.BLOCK][: depth + 1]
    assert [flat['tokens'][i] for i in path] == list(begin)
    assert path[-1] == node
  assert set(np.flatnonzero(flat['mask'])) == trained


def test_three_sequences_of_thirteen_tokens_have_eight_of_them():
  drawn = [([1, 2, 3, 4, 5], ON), ([1, 2, 3, 6], ON), ([1, 2, 3, 6], OFF)]
  drawn[2] = ([1, 2, 7, 0], ON)
  columns = columns_of(drawn)
  placed = prefixes.place(columns, ROWS)
  assert (placed[prefixes.PLACES] >= 0).sum() == 8
  np.testing.assert_allclose(prefixes.share(columns, placed), 0.6154, atol=1e-4)


def test_lengths_are_few_and_little_longer():
  lengths = [prefixes._rounded(n) for n in range(1, 4097)]
  assert len(set(lengths)) == 7 + 8 * 9 + 1
  assert all(n <= m <= 1.125 * n for n, m in enumerate(lengths, start=1))


def test_microbatches_have_tries_of_their_own():
  columns = columns_of([(LONG, ON)] * ROWS)
  nodes = prefixes.place(columns, 2)[prefixes.NODES]
  assert nodes.max() == len(LONG) - 1
  placed = prefixes.place(columns, 2)[prefixes.PLACES]
  assert [(x >= 0).sum() for x in placed.reshape(4, -1)] == [len(LONG)] * 4
  empty = {n: np.zeros_like(x) for n, x in columns.items() if n in
           ('tokens', 'positions', 'segments', 'mask')}  # fmt: skip
  assert (prefixes.place(empty, 4)[prefixes.PLACES] == -1).all()


# --- What the forward pass gives ----------------------------------------------


@functools.cache
def both(chunk, *, critic='', taught=False):
  """The forward pass with and without a trie, jitted."""
  model, params = policy(critic=critic)
  teacher, theirs = policy(SIZE._replace(layers=1))
  theirs = critics.policy(theirs)
  run = forward.make(
    model, temperature=0.7, chunk=chunk, teacher=teacher if taught else None
  )
  want = WANT | {'own_logp'}
  if taught:
    want |= {'reverse_kl', 'jsd'}
  keywords = {'taught': theirs} if taught else {}
  return jax.jit(lambda columns: run(params, columns, want, **keywords))


@pytest.mark.parametrize(
  'keywords',
  [{'chunk': 0}, {'chunk': 5}, {'chunk': 5, 'critic': 'own'},
   {'chunk': 3, 'taught': True}],
  ids=str,
)  # fmt: skip
@hypothesis.given(SEQUENCES)
@hypothesis.example(HARD)
@hypothesis.settings(deadline=None, max_examples=15)
def test_columns(keywords, drawn):
  columns = columns_of(drawn)
  run = both(**keywords)
  # Ids that are, as the scoring pass leaves them, a function of the beginning.
  ids = 3 * columns['tokens'] + columns['positions']
  ids = np.stack([ids % 8, (ids + 1) % 9], -1)
  columns['old_ids'] = np.where(columns['mask'][..., None], ids, 0)
  # Some were sampled hotter than others.
  hot = np.where(columns['seq'].ids % 3 == 1, 1.5, 0.7)
  columns['rollout_temperature'] = hot.astype(np.float32)
  assert_equal(run(columns), run(shared(columns)))


def test_experts_are_those_of_each_sequence():
  model, params = policy(MOE)
  run = forward.make(model, temperature=1.0, chunk=0)
  columns = columns_of([*HARD[:3], (LONG, ON)])
  shape = (ROWS, WIDTH, 2, MOE.mixture.chosen)
  experts = np.broadcast_to(np.arange(MOE.mixture.chosen), shape).copy()
  experts[0, 3] = -1  # of one of three that are alike
  columns['routed_experts'] = experts.astype(np.int32)
  merged = shared(columns)
  alike = merged[prefixes.NODES]
  assert alike[0, 2] == alike[2, 2] and alike[0, 3] != alike[2, 3]
  want = frozenset({'logp', 'rerouted'})
  got = [jax.jit(lambda c: run(params, c, want))(c) for c in (columns, merged)]
  assert_equal(*got)
  assert got[0]['rerouted'].any() and not got[0]['rerouted'].all()
  native = {n: x for n, x in merged.items() if n != 'routed_experts'}
  other = jax.jit(lambda c: run(params, c, frozenset({'logp'})))(native)
  assert np.abs(other['logp'] - got[1]['logp']).max() > 1e-3


# --- Losses and gradients -----------------------------------------------------


@functools.cache
def gradient(name):
  """Value and gradient of a recipe's loss, with whatever it needs, jitted."""
  model, params = policy()
  block = ml_collections.ConfigDict(recipes.METHODS[name])
  method = build.method(block)
  run = forward.make(model, temperature=1.0, chunk=6)
  want = columns_lib.filled_by(columns_lib.POLICY) & method.needs | {'logp'}

  @jax.jit
  def of(columns):
    def loss(params):
      made = run(params, columns, frozenset(want))
      seen = prefixes.of_rows(columns)
      credits = method.credit(seen)
      weights = method.weigh(seen, credits)
      return method.loss({**seen, **made}, credits, weights)

    return jax.value_and_grad(loss, has_aux=True)(params)

  return of


@pytest.mark.parametrize('name', METHODS)
@hypothesis.given(SEQUENCES)
@hypothesis.example(HARD)
@hypothesis.settings(deadline=None, max_examples=5)
def test_losses_and_gradients(name, drawn):
  columns = columns_of(drawn)
  (value, facts), grads = gradient(name)(columns)
  (other, others), moved = gradient(name)(shared(columns))
  np.testing.assert_allclose(other, value, rtol=1e-5, atol=1e-5)
  assert_equal(facts, others)
  size = max(1.0, *(float(jnp.abs(x).max()) for x in jax.tree.leaves(grads)))
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(b, a, atol=1e-5 * size),
    grads,
    moved,
  )


def test_the_gradient_is_not_of_nothing():
  for name in METHODS:
    _, grads = gradient(name)(shared(columns_of(HARD)))
    assert max(jnp.abs(x).max() for x in jax.tree.leaves(grads)) > 1e-3, name


# --- Settings -----------------------------------------------------------------


def test_what_cannot_be_shared_is_refused():
  config = tiny.config('x', updates={'prefixes': 'trie'})
  with pytest.raises(ValueError, match="prefixes is 'trie'; set it to 'own'"):
    prefixes.check(config)
  config = tiny.config('x', updates={'prefixes': 'shared', 'microbatch': 2})
  with pytest.raises(ValueError, match='the 4 rollouts of a prompt do not lie'):
    build.check(config)
