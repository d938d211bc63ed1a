"""Known faults of masks: which tokens are trained, seen and counted."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest

import arl
from arl.evaluate import behavior
from arl.kernels import divergences
from arl.methods import terms
from arl.models import transformer
from arl.rollout import engine, local, pack
from arl.train import forward

pytestmark = pytest.mark.usefixtures('compiled_once')
IMITATION = arl.method(terms.imitation())


def trained(params, batch, **how):
  """(loss, which rows of the logits of each sequence have a gradient)."""
  made, metrics = plain.update(
    params, batch, IMITATION, {'imitation': {}}, **how
  )
  moved = np.asarray(made.params['logits']) != np.asarray(params['logits'])
  return float(metrics['loss/total']), moved.any(axis=2)


def test_01_each_answer_token_is_trained_and_no_other():
  tokens = [11, 12, 13, 21, 22, 2]
  said = plain.Canned(plain.sample(tokens[3:]))
  (one,) = plain.roll_out(said, plain.env(), '11 12 13')
  assert one.tokens.tolist() == tokens
  logits = plain.logits_of(tokens, [10, 10, 1, 2, 4], 32)
  loss, moved = trained({'logits': logits}, plain.columns([one]), vocab=32)
  np.testing.assert_allclose(loss, 7 / 3, rtol=1e-5)
  assert moved.tolist() == [[False, False, True, True, True, False]]


@hypothesis.settings(deadline=None, max_examples=20)
@hypothesis.given(st.lists(st.integers(1, 3), min_size=2, max_size=6))
def test_01_any_turns_train_the_rows_before_their_tokens(lengths):
  """Prompt, action, observation, action, ...: one mask, never shifted."""
  spans = [[10 + i] * n for i, n in enumerate(lengths)]
  actions = [plain.sample([*ids, plain.END]) for ids in spans[1::2]]
  texts = [' '.join(map(str, ids)) for ids in spans[::2]]
  seen = texts[1 : len(actions)]
  said = plain.Canned(*actions)
  (one,) = plain.roll_out(said, plain.env(*seen), texts[0])
  want = [
    i - 1 for i, on in enumerate(one.mask) if on
  ]  # row i predicts token i + 1
  assert one.tokens[one.mask].tolist() == [
    int(i) for each in actions for i in each.tokens
  ]
  batch = plain.columns([one], width=32)
  logits = np.zeros((1, 32, 32), np.float32)
  _, moved = _moved(logits, batch)
  assert np.flatnonzero(moved[0]).tolist() == want


@functools.cache
def _gradient():
  run = forward.make(plain.table(32), temperature=1.0, chunk=0)

  @jax.jit
  def gradient(logits, tokens, positions, segments, mask):
    seen = {
      'tokens': tokens,
      'positions': positions,
      'segments': segments,
      'mask': mask,
    }

    def loss(logits):
      return jnp.sum(run({'logits': logits}, seen, frozenset({'logp'}))['logp'])

    return jax.value_and_grad(loss)(logits)

  return gradient


def _moved(logits, batch):
  names = ('tokens', 'positions', 'segments', 'mask')
  loss, slope = _gradient()(logits, *(batch[name] for name in names))
  return loss, np.any(slope != 0, axis=2)


def observed():
  """P P A A O O O A as a rollout makes it; there the action ends each turn."""
  said = plain.Canned(plain.sample([5, 2]), plain.sample([2]))
  (one,) = plain.roll_out(said, plain.env('7 8 9'), '3 4')
  assert one.mask.tolist() == [False] * 2 + [True] * 2 + [False] * 3 + [True]
  return one


def test_02_observations_enter_neither_loss_nor_kl_nor_length():
  one = observed()
  assert behavior.measure([one])['length/tokens_p95'] == 3
  batch = plain.columns([one])
  logits = np.zeros((1, 8, 12), np.float32)
  _, moved = trained({'logits': logits}, batch, vocab=12)
  assert np.flatnonzero(moved[0]).tolist() == [1, 2, 6]
  drift = np.float32([[0, 0, 0.1, 0.2, -5, -6, -7, 0.3]])
  kl = arl.method(terms.kl(1.0, kernel=divergences.k1))
  batch |= {'logp': drift, 'ref_logp': np.zeros_like(drift)}
  loss, _ = kl.loss(batch, {'kl': {}}, kl.weigh(batch, {'kl': {}}))
  np.testing.assert_allclose(loss, 0.2, rtol=1e-5)


def test_03_a_padding_id_may_be_the_end_and_stand_in_the_prompt():
  limits = plain.ROOMY._replace(turn_tokens=5)
  said = plain.Canned(
    plain.sample([5, 6, 0]), plain.sample([7, 8, 9, 4, 3], finish='length')
  )
  rolled = plain.roll_out(
    said, plain.env(), '0 9 0 8', stop=(0,), limits=limits, samples=2
  )
  batch = plain.columns(rolled)
  assert batch['tokens'][0, 7:].tolist() == [0, 0]  # padding is id 0 as well
  assert batch['mask'][:, 4:].tolist() == [[True] * 3 + [False] * 2, [True] * 5]
  assert batch['segments'][:, :4].all() and not batch['segments'][0, 7:].any()
  logits = np.zeros((2, 9, 12), np.float32)
  _, moved = trained({'logits': logits}, batch, vocab=12)
  assert np.flatnonzero(moved[0]).tolist() == [3, 4, 5]  # 5: the end itself
  assert moved.sum() == 8


@functools.cache
def placed(size):
  """A model that knows where a token stands: (apply in a pack, logp)."""
  model = transformer.make(size)
  params = model.init(jax.random.key(0))
  rng = np.random.default_rng(0)
  params = jax.tree.map(
    lambda x: jnp.asarray(0.3 * rng.normal(size=x.shape), x.dtype), params
  )
  places = jnp.asarray(rng.normal(size=(32, size.width)), jnp.float32)

  def apply(params, tokens, positions, segments, *rest, **more):
    hidden = model.apply(params, tokens, positions, segments, *rest, **more)
    return hidden + places[positions]

  run = forward.make(model._replace(apply=apply), temperature=1.0, chunk=0)
  logp = jax.jit(lambda params, batch: run(params, batch, frozenset({'logp'})))
  return params, lambda batch, own=params: np.asarray(logp(own, batch)['logp'])


def at(one, before, width):
  """The columns of an episode behind so much padding."""
  batch = plain.columns([one], width=width - before)
  names = ('tokens', 'positions', 'segments', 'mask')
  wide = ((0, 0), (before, 0))
  return {name: np.pad(batch[name], wide) for name in names}


def test_04_padding_on_either_side_changes_no_log_prob():
  one = plain.made([4, 5, 6, 7, 8], [0, 0, 0, 1, 1])
  _, logp = placed(plain.SMALL)
  found = []
  for before in (0, 3, 6):
    batch = at(one, before, 11)
    mask = batch['mask'][0]
    assert np.flatnonzero(mask).tolist() == [before + 3, before + 4]
    assert batch['positions'][0, before : before + 5].tolist() == [*range(5)]
    found.append(logp(batch)[0, mask])
  np.testing.assert_allclose(found[1:], [found[0]] * 2, atol=1e-5)
  shifted = at(one, 0, 11)
  shifted['positions'] = shifted['positions'] + 3
  assert np.abs(logp(shifted)[0, 3:5] - found[0]).max() > 0.01, 'unseen'


def test_05_engine_and_trainer_speak_of_the_same_token():
  said = plain.Canned(plain.sample([5, 6, 2], [-0.1, -2.0, -0.5]))
  (one,) = plain.roll_out(said, plain.env(), '4')
  batch = plain.columns([one])
  logits = plain.logits_of(one.tokens, [0.1, 2.0, 0.5], 12)
  made, agreed = plain.scored(plain.table(12), {'logits': logits}, batch)
  ratio = np.exp(made['old_logp'] - batch['rollout_logp'])[0, 1:]
  np.testing.assert_allclose(ratio, [1, 1, 1], atol=1e-5)
  assert agreed['mismatch/max'] < 1e-5
  # Off by one it could not be missed: 0.14957 and 4.48169.
  late = {**batch, 'rollout_logp': np.roll(batch['rollout_logp'], -1, 1)}
  _, agreed = plain.scored(plain.table(12), {'logits': logits}, late)
  np.testing.assert_allclose(agreed['mismatch/max'], 1.9, rtol=1e-5)


def test_05_a_real_engine_and_the_trainer_agree_before_an_update():
  model, params = plain.uneven()
  said = local.LocalEngine(model, params, slots=4, context=32, seed=1)
  limits = plain.ROOMY._replace(context=32, turn_tokens=8)
  rolled = plain.roll_out(
    said, plain.env('3 4', '5'), '6 7', limits=limits, samples=4
  )
  batch = plain.columns(rolled, width=32)
  steps = np.diff(np.concatenate([e.logp[e.mask] for e in rolled]))
  assert np.abs(steps).max() > 1
  _, agreed = plain.scored(model, params, batch)
  assert agreed['mismatch/max'] < 1e-3


def test_07_the_end_is_kept_and_the_next_turn_follows_it():
  said = plain.Canned(plain.sample([41, 42, 43, 2]), plain.sample([44, 2]))
  (one,) = plain.roll_out(said, plain.env('7'), '1')
  assert said.calls[1].tokens == (1, 41, 42, 43, 2, 7)
  assert one.tokens[one.mask].tolist() == [41, 42, 43, 2, 44, 2]


def test_07_fewer_ids_than_log_probs_are_refused():
  short = plain.sample([41, 42, 43])._replace(logp=np.float32([-1] * 4))
  with pytest.raises(ValueError, match='3 tokens and 4 numbers of logp'):
    plain.roll_out(plain.Canned(short), plain.env())
  trimmed = plain.sample([41, 42, 43])  # of both, but it says that it stopped
  with pytest.raises(ValueError, match='must end with the first stop token'):
    plain.roll_out(plain.Canned(trimmed), plain.env())


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(
  st.integers(0, 4),
  st.integers(0, 4),
  st.integers(0, 4),
  st.sampled_from((engine.STOP, engine.LENGTH)),
  st.booleans(),
)
def test_07_no_answer_is_cut_to_fit(ids, logp, versions, finish, ended):
  """Of any lengths, an answer comes through whole or raises."""
  tokens = [9] * ids
  if ended and tokens:
    tokens[-1] = plain.END
  said = engine.Sample(
    np.array(tokens, np.int32),
    np.full(logp, -1, np.float32),
    finish,
    np.zeros(versions, np.int32),
  )
  try:
    (one,) = plain.roll_out(plain.Canned(said), plain.env())
  except ValueError:
    fits = ids and ids == logp == versions
    assert not (fits and (ended == (finish == engine.STOP)))
  else:
    assert one.tokens[one.mask].tolist() == tokens
    assert ids == logp == versions and ids


def packed(first, second, width):
  return plain.columns([first, second], width=width, place=pack.pack)


SEEN = ('tokens', 'positions', 'segments', 'mask')
A = plain.made([1, 2, 3], [0, 1, 1], id='a')
B = plain.made([4, 5], [0, 1], id='b')


@functools.cache
def read():
  """(parameters, compiled (parameters, columns) -> log-probs) of a model."""
  model, params = plain.uneven()
  run = forward.make(model, temperature=1.0, chunk=0)
  want = frozenset({'logp'})
  return params, jax.jit(
    lambda params, batch: run(params, {n: batch[n] for n in SEEN}, want)['logp']
  )


@pytest.mark.parametrize('width', [5, 9], ids=['full', 'padded'])
def test_08_what_shares_a_row_is_alone(width):
  batch = packed(A, B, width)
  assert batch['positions'][0, :5].tolist() == [0, 1, 2, 0, 1]
  assert batch['segments'][0, :5].tolist() == [1, 1, 1, 2, 2]
  assert batch['mask'][0, :5].tolist() == [False, True, True, False, True]
  params, logp = read()
  seen = {n: batch[n] for n in SEEN}
  alone = plain.columns([B], rows=2, width=width)
  found = logp(params, seen)[0, 4]
  one = logp(params, {n: alone[n] for n in SEEN})[0, 1]
  np.testing.assert_allclose(found, one, atol=1e-5)
  other = packed(A._replace(tokens=np.int32([7, 8, 9])), B, width)
  assert logp(params, {n: other[n] for n in SEEN})[0, 4] == found


def test_08_no_gradient_goes_from_one_to_the_other():
  params, logp = read()
  batch = packed(A, B, 9)
  seen = {n: batch[n] for n in SEEN}
  of_b = jax.jit(jax.grad(lambda params: logp(params, seen)[0, 4]))
  slope = of_b(params)['embed']['embedding']
  assert not np.any(slope[1:4]) and np.any(slope[4])


def test_08_no_first_token_is_a_target():
  """What stands before it in the row says nothing of it."""
  with pytest.raises(ValueError, match='does not begin with a prompt'):
    plain.columns([plain.made([1, 2], [1, 1])])
