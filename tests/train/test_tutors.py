"""A policy told more by weights that move less: frozen, or its own average."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny

from arl.models import hf, sizes, tokenizers, transformer
from arl.rollout import local, privileged, strategies
from arl.train import build, fills, loop, state, tutors

SHARE, STEPS = 0.25, 4
pytestmark = pytest.mark.usefixtures('compiled_once')


@pytest.fixture(scope='module')
def speller(tmp_path_factory):
  """The folder of a tiny policy that spells all that a hint says."""
  folder = tmp_path_factory.mktemp('models') / 'speller'
  shape = sizes.tiny(len(tokenizers.characters()))._replace(context=96)
  params = transformer.make(shape).init(jax.random.key(0))
  hf.save(folder, jax.device_get(params), shape)
  tokenizers.save(tokenizers.characters(), folder)
  return folder


def config(folder, **model):
  made = tiny.config(
    folder,
    steps=STEPS,
    method={'name': 'distillation.privileged'},
    env={'name': 'tools.make'},
    rollout={'strategy': 'privileged.told_answer', 'context': 96},
    prompts={'size': 64, 'batch': 4, 'samples': 2},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 2},
    checkpoint={'every': 1, 'keep': 9},
  )
  made.model.update(model)
  return made


def watched(config, folder):
  """A run, and (params of what sampled, of what scored) of each batch."""
  given, scored = {}, []
  with pytest.MonkeyPatch.context() as patch:
    generate, score = local.LocalEngine.generate, local.LocalEngine.score

    def sampled(engine, requests, sampling):
      given['sampled'] = jax.device_get(engine._passes.params)
      return generate(engine, requests, sampling)

    def noted(engine, rows, temperature):
      scored.append((given['sampled'], jax.device_get(engine._passes.params)))
      return score(engine, rows, temperature)

    patch.setattr(local.LocalEngine, 'generate', sampled)
    patch.setattr(local.LocalEngine, 'score', noted)
    now = loop.train(config, folder)
  return now, scored


@pytest.fixture(scope='module')
def averaged(speller, tmp_path_factory, compiled_once):
  del compiled_once
  folder = tmp_path_factory.mktemp('average') / 'run'
  return folder, *watched(config(speller, average=SHARE), folder)


def test_the_average_scores(averaged):
  """Of each batch the weights after it, by hand."""
  _, now, scored = averaged
  *batches, last = scored[1:]  # the first and the last are to show
  want = batches[0][1]
  tiny.same(want, batches[0][0])  # it begins as the policy
  for (_, teacher), (policy, after) in zip(batches, [*batches[1:], last]):
    tiny.same(teacher, want)
    want = jax.tree.map(
      lambda x, y: x + np.float32(SHARE) * (y - x), want, policy
    )
    jax.tree.map(
      lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-7),
      after, want,
    )  # fmt: skip
    want = after
  tiny.same(last[1], now.average)
  assert not np.array_equal(*(jax.tree.leaves(x)[0] for x in last))


def test_it_resumes_with_the_same_bits(averaged, speller, tmp_path):
  folder, now, _ = averaged
  tiny.cut(folder, tmp_path / 'cut', 2)
  again = loop.train(config(speller, average=SHARE), tmp_path / 'cut')
  tiny.same(again, now)
  assert tiny.rows(tmp_path / 'cut') == tiny.rows(folder)


def test_weights_in_a_folder_score_and_stay(speller, tmp_path):
  made = config(speller, teacher=str(speller))
  now, scored = watched(made, tmp_path / 'run')
  base = hf.load(speller).params
  for _, teacher in scored:
    tiny.same(teacher, base)
  policies = [jax.tree.leaves(policy)[0] for policy, _ in scored]
  assert not np.array_equal(policies[0], policies[-1])
  assert now.average == ()


def test_the_live_policy_scores_itself(speller, tmp_path):
  _, scored = watched(config(speller), tmp_path)
  for policy, teacher in scored:
    tiny.same(policy, teacher)


def test_such_a_teacher_reads_no_rows_without_a_hint(speller):
  made = config(speller, teacher=str(speller))
  method = build.check(made)
  learner = build.learner(made, method, hf.load(speller))
  assert not learner.others
  there = fills.filled(made, tiny.letters(), privileged.told_steps)
  assert 'teacher_logp' in there and 'teacher_entropy' not in there
  made.method = {'name': 'matching.eopd', 'k': 4}
  with pytest.raises(ValueError, match='teacher_entropy'):
    build.check(made)


@pytest.mark.parametrize(
  'model, strategy, words',
  [
    ({'average': 1.5}, 'privileged.told_steps', 'average is 1.5; it is the'),
    ({'average': 0.1}, 'strategies.multi_turn', 'multi_turn lets no teacher'),
    ({'average': 0.1, 'teacher': 'x'}, 'privileged.told_steps', 'one of them'),
    ({'teacher': 'http://a'}, 'privileged.told_steps', 'one model out of a fo'),
    ({'teacher': 'a=x,b=y'}, 'privileged.told_steps', 'one model out of a fol'),
  ],
)
def test_settings_that_cannot_work(model, strategy, words):
  made = config('some/folder', **model)
  made.rollout.strategy = strategy
  with pytest.raises(ValueError, match=words):
    build.check(made)


def test_other_strategies_are_as_they_were():
  made = config('some/folder')
  made.rollout.strategy = 'strategies.multi_turn'
  assert tutors.make(made, None) == (strategies.multi_turn, None)


def test_the_average_of_a_state():
  now = state.create({'w': jnp.ones(2)}, optax.sgd(1.0), averaged=True)
  assert state.end_batch(now._replace(average=()), 0.5).average == ()
  for share in (0.5, 0.5, 1.0, 0.0):
    now = now._replace(params={'w': now.params['w'] + 2})
    before = now.average['w']
    now = state.end_batch(now, share)
    want = (1 - share) * before + share * now.params['w']
    np.testing.assert_array_equal(now.average['w'], want)
