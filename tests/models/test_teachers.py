"""A teacher beside the policy in the head, against all of [B, T, V] at once."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import heads, sizes, teachers, transformer

ROWS, LENGTH, VOCAB, MORE, TAU = 2, 6, 83, 89, 0.7
WHERE = np.array([[0, 1, 1, 0, 1, 1], [0, 0, 0, 1, 0, 0]], bool)
PICKED = np.random.default_rng(1).integers(
  VOCAB, size=(ROWS, LENGTH, 5), dtype=np.int32
)
WANT = teachers.DIVERGENCES | heads.LIKELIEST | {'logp'}


@functools.cache
def _case(vocab=MORE):
  """(model, params, hidden, tokens, teacher)."""
  keys = iter(jax.random.split(jax.random.key(0), 8))
  model = transformer.make(sizes.tiny(VOCAB))
  params = model.init(next(keys))
  params['embed'] = {'embedding': jax.random.normal(next(keys), [VOCAB, 32])}
  hidden = jax.random.normal(next(keys), [ROWS, LENGTH, 32])
  tokens = jax.random.randint(next(keys), (ROWS, LENGTH), 0, VOCAB)
  other = transformer.make(sizes.tiny(vocab))
  theirs = other.init(next(keys))
  theirs['embed'] = {'embedding': jax.random.normal(next(keys), [vocab, 32])}
  states = jax.random.normal(next(keys), [ROWS, LENGTH, 32])
  teacher = teachers.Teacher(other, theirs, states)
  return model, params, hidden, tokens, teacher


def _plain(params, hidden, taught, states):
  """All columns, from logits [B, T, V] of the tokens that both know."""
  both = min(VOCAB, len(taught['embed']['embedding']))
  logs = {
    'own': hidden[:, :-1] @ params['embed']['embedding'].T / TAU,
    'theirs': states[:, :-1] @ taught['embed']['embedding'].T / TAU,
  }
  every = jax.nn.log_softmax(logs['own'])
  own, theirs = (jax.nn.log_softmax(x[..., :both]) for x in logs.values())
  p, q = jnp.exp(own), jnp.exp(theirs)
  mixture = jnp.log((p + q) / 2)
  made = {
    'reverse_kl': jnp.sum(p * (own - theirs), axis=-1),
    'forward_kl': jnp.sum(q * (theirs - own), axis=-1),
    'jsd': jnp.sum(p * (own - mixture) + q * (theirs - mixture), axis=-1) / 2,
    'top_logp': jnp.take_along_axis(every, PICKED[:, 1:], axis=-1),
    'likeliest_logp': -jnp.sort(-every, axis=-1)[..., : heads.TOP],
  }
  pad = lambda x: jnp.pad(x, ((0, 0), (1, 0), (0, 0))[: x.ndim])
  return {name: pad(x) for name, x in made.items()}


def _made(params, hidden, taught, states, *, chunk, where=None, vocab=MORE):
  model, _, _, tokens, teacher = _case(vocab)
  return heads.columns(
    model, params, hidden, tokens, WANT, temperature=TAU, chunk=chunk,
    where=where, at={'top_logp': jnp.asarray(PICKED)},
    teacher=teacher._replace(params=taught, hidden=states),
  )  # fmt: skip


def _arrays(vocab=MORE):
  _, params, hidden, _, teacher = _case(vocab)
  return params, hidden, teacher.params, teacher.hidden


@pytest.mark.parametrize('vocab', [MORE, VOCAB, VOCAB - 9])
@pytest.mark.parametrize('chunk', [None, 1, 4, 64])
def test_columns_are_those_of_the_whole(chunk, vocab):
  arrays = _arrays(vocab)
  made = jax.jit(functools.partial(_made, chunk=chunk, vocab=vocab))(*arrays)
  want = jax.jit(_plain)(*arrays)
  assert made.keys() == {*want, 'likeliest', 'logp'}
  for name, column in want.items():
    np.testing.assert_allclose(made[name], column, atol=2e-5, err_msg=name)
  some = jax.jit(functools.partial(_made, chunk=chunk, vocab=vocab))(
    *arrays, where=jnp.asarray(WHERE)
  )
  for name, column in want.items():
    on = WHERE.reshape(ROWS, LENGTH, *(1,) * (column.ndim - 2))
    np.testing.assert_allclose(
      some[name], np.where(on, column, 0), atol=2e-5, err_msg=name
    )


def test_the_likeliest_come_first():
  made = _made(*_arrays(), chunk=4)
  ids, logp = made['likeliest'][:, 1:], made['likeliest_logp'][:, 1:]
  assert ids.dtype == jnp.int32 and ids.shape == (ROWS, LENGTH - 1, heads.TOP)
  params, hidden, *_ = _arrays()
  logs = jax.nn.log_softmax(
    hidden[:, :-1] @ params['embed']['embedding'].T / TAU
  )
  np.testing.assert_allclose(
    np.take_along_axis(logs, ids, axis=-1), logp, atol=1e-5
  )
  assert np.all(np.diff(logp, axis=-1) <= 0)


READ = 'reverse_kl', 'forward_kl', 'jsd', 'top_logp'


def _loss(columns):
  weights = np.random.default_rng(0).normal(size=(len(READ), ROWS, LENGTH))
  summed = {
    n: jnp.sum(columns[n], axis=range(2, columns[n].ndim)) for n in READ
  }
  return sum(
    jnp.sum(jnp.asarray(w * WHERE, jnp.float32) * summed[name])
    for w, name in zip(weights, READ, strict=True)
  )


@pytest.mark.parametrize('chunk', [None, 3])
def test_gradients_are_those_of_the_whole(chunk):
  where = jnp.asarray(WHERE)
  arrays = _arrays()
  make = lambda *arrays: _loss(_made(*arrays, chunk=chunk, where=where))
  got = jax.jit(jax.grad(make, (0, 1, 2, 3), allow_int=True))(*arrays)
  plain = lambda *arrays: _loss(_plain(*arrays))
  want = jax.jit(jax.grad(plain, (0, 1)))(*arrays)
  for a, b in zip(jax.tree.leaves(got[:2]), jax.tree.leaves(want), strict=True):
    np.testing.assert_allclose(a, b, atol=2e-4)
  assert np.any(got[1])
  assert not any(np.any(x) for x in jax.tree.leaves(got[2:])), 'of the teacher'


def test_no_buffer_is_as_wide_as_batch_and_vocabulary():
  arrays = _arrays()
  where = jnp.asarray(WHERE)

  def widest(chunk):
    make = lambda *arrays: _loss(_made(*arrays, chunk=chunk, where=where))
    text = jax.jit(jax.grad(make)).lower(*arrays).compile().as_text()
    shapes = re.findall(rf'f32\[([\d,]+),(?:{VOCAB}|{MORE})\]', text)
    sizes_ = [np.prod([int(n) for n in s.split(',')]) for s in shapes]
    return max(int(n) for n in sizes_)

  assert widest(None) == ROWS * (LENGTH - 1)
  assert widest(2) == 2


def test_what_is_impossible_is_finite():
  logs = jnp.asarray([[0.0, -jnp.inf, -jnp.inf], [-0.7, -0.7, -jnp.inf]])
  scores = jnp.asarray([[-jnp.inf, 0.0, -jnp.inf], [0.0, 0.0, 0.0]])

  def total(logs):
    made = teachers.compare(logs, scores, teachers.DIVERGENCES)
    return sum(jnp.sum(x) for x in made.values()), made

  (_, made), gradient = jax.value_and_grad(total, has_aux=True)(logs)
  np.testing.assert_allclose(made['reverse_kl'][0], 1e4, rtol=1e-6)
  np.testing.assert_allclose(made['jsd'][0], np.log(2), rtol=1e-6)
  assert all(np.all(np.isfinite(x)) for x in made.values())
  assert np.all(np.isfinite(gradient[1, :2]))
  ids = jnp.asarray([[0, 1, 7], [2, -1, 0]])
  np.testing.assert_allclose(
    teachers.log_probs(logs, ids), [[0, -1e4, -1e4], [-1e4, -1e4, -0.7]]
  )


def test_a_divergence_needs_a_teacher():
  model, params, hidden, tokens, *_ = _case()
  with pytest.raises(ValueError, match=r"\['jsd'\] are divergences to a teach"):
    heads.columns(model, params, hidden, tokens, {'jsd'})
