"""A teacher in a run: what it fills, what an update sees, what may be given."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny

from arl.methods import compose, matching
from arl.models import transformer
from arl.train import (
  batch,
  forward,
  loading,
  loop,
  score,
  sharding,
  state,
  step,
)

ROWS = 8
CLOSE = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
METHODS = {
  'opd_full': matching.opd_full(),
  'opd_tail': matching.opd_tail(k=3),
  'opd_candidates': matching.opd_candidates(k=3),
  'gkd': matching.gkd(k=4),
  'gkd_full': matching.gkd_full(),
}


@functools.cache
def models():
  """(policy, its params, a wider teacher, its params)."""
  shape = tiny.size()._replace(layers=2, width=24, heads=3)
  policy, teacher = transformer.make(tiny.size()), transformer.make(shape)
  own, theirs = (
    m.init(jax.random.key(i)) for i, m in ((0, policy), (1, teacher))
  )
  return policy, own, teacher, jax.tree.map(lambda x: 3 * x, theirs)


def mesh():
  return sharding.make_mesh(data=1, fsdp=1)


@functools.cache
def forwards():
  policy, _, teacher, _ = models()
  make = functools.partial(forward.make, temperature=0.7, chunk=3)
  return make(policy, teacher=teacher), make(teacher)


@functools.cache
def scorer(needs):
  own, theirs = forwards()
  return score.make_score(
    own, needs, others={'teacher_logp': theirs}, microbatch=4, mesh=mesh()
  )


def columns(**given):
  made = tiny.columns(tiny.episodes(2, 4), rows=ROWS)
  noise = jax.random.uniform(jax.random.key(2), made['mask'].shape)
  return {**made, 'noise': noise, **given}


def distributions():
  """Log-probs [B, T, V] of policy and teacher, 0 at position 0."""
  seen = [columns()[n] for n in ('tokens', 'positions', 'segments')]
  policy, own, teacher, theirs = models()
  made = []
  for model, params in ((policy, own), (teacher, theirs)):
    hidden = jax.jit(model.apply)(params, *seen)[:, :-1]
    logs = jax.nn.log_softmax(model.logits(params, hidden) / 0.7)
    made.append(np.pad(logs, ((0, 0), (1, 0), (0, 0))))
  return made


def scored(needs):
  _, own, _, theirs = models()
  return scorer(frozenset(needs))(own, {'teacher_logp': theirs}, columns())


def test_a_teacher_fills_what_is_read():
  names = (set(score.OF_TEACHER) - {'teacher_logps'}) | {
    'old_ids',
    'old_own_logp',
  }
  made = scored(names)
  assert made.keys() == {*names, 'old_logp', 'old_entropy'}
  own, theirs = distributions()
  on = columns()['mask']
  first = lambda x: -np.sort(-x, axis=-1)
  pick = np.take_along_axis
  want = {
    'teacher_entropy': -np.sum(np.exp(theirs) * theirs, axis=-1),
    'teacher_top_logp': first(theirs),
    'old_own_logp': first(own),
    'teacher_own_logp': pick(theirs, np.asarray(made['old_ids']), axis=-1),
  }
  for name, column in want.items():
    CLOSE(made[name][on], column[on], atol=1e-5, err_msg=name)
    assert not np.any(made[name][~on]), name
  ids = np.asarray(made['teacher_ids'])
  CLOSE(pick(theirs, ids, axis=-1)[on], first(theirs)[on], atol=1e-5)


def test_ids_come_with_what_is_of_them():
  assert scored({'teacher_top_logp'}).keys() == {
    'old_logp', 'old_entropy', 'teacher_top_logp', 'teacher_ids',
  }  # fmt: skip


def test_what_is_given_is_not_made_again():
  given = {
    'teacher_ids': np.zeros((ROWS, columns()['mask'].shape[1], 2), np.int32),
    'teacher_top_logp': np.zeros((ROWS, columns()['mask'].shape[1], 2)),
  }
  _, own, _, theirs = models()
  run = scorer(frozenset({'teacher_top_logp', 'teacher_logp'}))
  made = run(own, {'teacher_logp': theirs}, columns(**given))
  assert made.keys() == {'old_logp', 'old_entropy', 'teacher_logp'}


@pytest.mark.parametrize('name', METHODS)
def test_each_form_draws_the_policy_to_the_teacher(name):
  method = compose.method(METHODS[name])
  own, _ = forwards()
  _, params, _, theirs = models()
  tx = optax.adam(1e-2)
  update = step.make_train_step(own, method, tx, microbatch=4, mesh=mesh())
  seen = columns()

  @jax.jit
  def apart(params):
    return own(params, seen, frozenset({'reverse_kl'}), taught=theirs)

  before = np.sum(apart(params)['reverse_kl'])
  now = state.create(jax.tree.map(jnp.copy, params), tx)
  for _ in range(20):
    made = scorer(method.needs)(now.params, {'teacher_logp': theirs}, seen)
    now, metrics = update(now, {**seen, **made}, {'matched': {}}, taught=theirs)
    assert np.isfinite(metrics['loss/total'])
  assert np.sum(apart(now.params)['reverse_kl']) < 0.8 * before


# Whole runs.


def _train(folder, name, **blocks):
  policy = tiny.write_model(folder / 'policy')
  teacher = tiny.write_model(folder / 'teacher', seed=5)
  config = tiny.config(
    policy, method={'name': name}, model={'teacher': str(teacher)}, **blocks
  )
  loop.train(config, folder / 'run')
  return tiny.rows(folder / 'run')


@pytest.mark.parametrize(
  'name', ['distillation.opd', 'matching.opd_full', 'matching.opd_tail']
)
def test_runs_with_a_teacher(tmp_path, name):
  rows = _train(tmp_path, name)
  losses = [row['loss/total'] for row in rows]
  assert len(losses) == 4 and all(map(np.isfinite, losses))
  part = 'policy' if name == 'distillation.opd' else 'matched'
  assert all(row[f'{part}/cross_entropy'] > 0 for row in rows)


# What a teacher elsewhere said comes with the episodes.


def _told(episodes, ids, logp):
  given = {'teacher_ids': ids, 'teacher_top_logp': logp}
  return [
    e._replace(
      extras={n: np.tile(x, (len(e.tokens), 1)) for n, x in given.items()}
    )
    for e in episodes
  ]


def test_what_episodes_bring_is_packed_as_it_is():
  ids, logp = np.int32([[4, 1]]), np.float32([[-0.5, -2.0]])
  part = _told(tiny.episodes(1, 4), ids, logp)
  learner = tiny.learner(matching.gkd(), rows=4)
  data = batch.make(
    learner, None, [part], width=12, max_turns=2, from_loop=lambda *_: {}
  )
  on = data.columns['mask']
  assert data.columns['teacher_ids'].shape == (*on.shape, 2)
  np.testing.assert_array_equal(
    data.columns['teacher_ids'][on], np.tile(ids, (int(on.sum()), 1))
  )
  np.testing.assert_array_equal(
    data.columns['teacher_top_logp'][on], np.tile(logp, (int(on.sum()), 1))
  )
  batch.check_origin('matching.gkd', data, learner.method.needs)


# Teachers that cannot be compared with.


def _further(folder, shape, needs):
  """The models of a run whose teacher is of this shape."""
  policy = tiny.write_model(folder / 'policy')
  teacher = tiny.write_model(folder / 'teacher', seed=3, shape=shape)
  config = tiny.config(policy, model={'teacher': str(teacher)})
  loaded, _ = loading.load_model(config.model, 0)
  return loading.further(config, compose.method(needs), loaded)


def test_a_teacher_is_not_asked_about_ids_that_the_policy_lacks(tmp_path):
  made = _further(tmp_path, tiny.size(vocab=16), matching.gkd())
  (teacher,) = made['teacher_logp']
  states = jnp.zeros((2, tiny.size().width))
  assert teacher.model.logits(teacher.params, states).shape == (2, 8)


@pytest.mark.parametrize('recipe', [matching.opd_full, matching.gkd])
def test_a_teacher_that_reads_less_is_refused_by_all_forms(tmp_path, recipe):
  short = tiny.size()._replace(context=16)
  with pytest.raises(ValueError, match='reads 16 tokens, but episodes have'):
    _further(tmp_path, short, recipe())
