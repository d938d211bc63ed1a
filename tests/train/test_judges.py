"""Reward models as judges: by ids, by texts, in batches, as terms of a run."""

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest
import tiny

from arl import episode
from arl.models import functional, heads, hf
from arl.rewards import shaping, verdict
from arl.train import build, export, judges, loop, reward_models

HEAD = functional.VALUE_HEAD
PLAYED = tiny.episodes(1, 6, longest=16)


def _folder(folder, model_folder, seed=0, bins=0):
  width = tiny.size().width
  params = hf.load(model_folder, cast='float32').params
  made = heads.with_value_head(params, width, bins)
  weight = jax.random.normal(jax.random.key(seed), made[HEAD]['weight'].shape)
  made[HEAD] = {**made[HEAD], 'weight': weight}
  export.save(folder, made, tiny.size(), tiny.tokenizer())
  return str(folder)


@pytest.fixture(scope='module')
def folder(model_folder, tmp_path_factory):
  return _folder(tmp_path_factory.mktemp('rm') / 'final', model_folder)


def _scores(folder, tokens):
  """The score after each token, a sequence alone and unpadded."""
  made = judges.load(folder)
  ids = jnp.asarray(tokens)[None]
  steps = jnp.arange(len(tokens))[None]
  hidden = made.model.apply(made.params, ids, steps, jnp.ones_like(ids))[0]
  head = made.params[HEAD]
  return np.asarray(hidden @ head['weight'])


def _sigmoid(x):
  return 1 / (1 + np.exp(-x))


def test_an_outcome_is_judged_after_the_last_sampled_token(folder):
  judge = reward_models.outcome(path=folder)
  # More than a batch, of different lengths, in one call and one by one.
  played = PLAYED * 3
  want = [
    _sigmoid(_scores(folder, e.tokens)[np.flatnonzero(e.mask)[-1]])
    for e in PLAYED
  ]
  np.testing.assert_allclose(judge(played), want * 3, atol=1e-5)
  np.testing.assert_allclose(judge(PLAYED[2:3]), want[2:3], atol=1e-5)


def test_a_process_is_judged_by_its_steps(folder):
  every = []
  for one in PLAYED:
    scores = _scores(folder, one.tokens)
    ends = [np.flatnonzero(one.mask & (one.turn == k))[-1] for k in (0, 1)]
    every.append(_sigmoid(scores[ends]))
  for reduce, of in (
    ('min', np.min), ('product', np.prod), ('mean', np.mean),
    ('last', lambda x: x[-1]),
  ):  # fmt: skip
    judge = reward_models.process(path=folder, reduce=reduce)
    want = [of(each) for each in every]
    np.testing.assert_allclose(judge(PLAYED), want, atol=1e-5)
  with pytest.raises(ValueError, match='give one of min, product'):
    reward_models.process(path=folder, reduce='max')


def test_what_logits_imply_is_a_likelihood_and_a_value(model_folder):
  judge = reward_models.endogenous(path=str(model_folder))
  made = hf.load(model_folder, cast='float32')
  for one, got in zip(PLAYED, judge(PLAYED)):
    ids = jnp.asarray(one.tokens)[None]
    steps = jnp.arange(ids.shape[1])[None]
    hidden = made.model.apply(made.params, ids, steps, jnp.ones_like(ids))
    logits = made.model.logits(made.params, hidden[0])
    logs = jax.nn.log_softmax(logits)
    at = np.flatnonzero(one.mask)
    likely = sum(float(logs[i - 1, one.tokens[i]]) for i in at)
    value = float(jax.nn.logsumexp(logits[at[0] - 1]))
    np.testing.assert_allclose(got, (likely + value) / len(at), rtol=1e-4)
  said = judge.score(['a', 'ab.d'])
  assert [v.status for v in said] == [verdict.ERROR, verdict.SCORED]


def test_texts_have_verdicts(folder):
  judge = reward_models.outcome(path=folder)
  said = judge.score(['ab', '', 'abcd' * 20, '€', 'd.'])
  assert [v.status == verdict.SCORED for v in said] == [
    True, False, False, False, True,
  ]  # fmt: skip
  ids = tiny.tokenizer().encode('ab', add_special_tokens=False)
  want = _sigmoid(_scores(folder, ids)[-1])
  np.testing.assert_allclose(said[0].score, want, atol=1e-5)
  assert 'nothing was said' in said[1].detail
  assert 'reads 32' in said[2].detail
  assert judge.score([]) == []


def test_a_rollout_that_cannot_be_judged_is_no_rollout_of_score_zero(folder):
  judge = reward_models.outcome(path=folder)
  one = PLAYED[0]
  other = one._replace(tokens=np.full_like(one.tokens, 40))
  with pytest.raises(ValueError, match="task 'task/0': it has the id 40"):
    judge([one, other])


def test_an_ensemble_is_wary(folder, model_folder, tmp_path):
  other = _folder(tmp_path / 'final', model_folder, seed=1)
  each = np.stack([
    reward_models.outcome(path=p)(PLAYED) for p in (folder, other)
  ])  # fmt: skip
  for name, want in (
    ('mean', each.mean(0)),
    ('worst', each.min(0)),
    ('less_variance', each.mean(0) - 0.5 * each.var(0)),
  ):
    judge = reward_models.ensemble(paths=[folder, other], combine=name)
    np.testing.assert_allclose(judge(PLAYED), want, atol=1e-6)
  judge = reward_models.ensemble(paths=[folder, other], coef=2.0)
  want = each.mean(0) - 2 * each.var(0)
  np.testing.assert_allclose(judge(PLAYED), want, atol=1e-6)
  first, second = judge.score(['ab', ''])
  assert first.status == verdict.SCORED and second.status == verdict.ERROR
  with pytest.raises(ValueError, match='0 models'):
    reward_models.ensemble(paths=[])


def test_what_is_no_reward_model(model_folder, tmp_path):
  with pytest.raises(ValueError, match='has no value head'):
    reward_models.outcome(path=str(model_folder))
  binned = _folder(tmp_path / 'final', model_folder, bins=4)
  with pytest.raises(ValueError, match='critic of 4 bins'):
    reward_models.process(path=binned)


def _block(folder, **more):
  return {'name': 'arl.train.reward_models.outcome', 'path': folder, **more}


def test_a_config_names_it_and_weighs_it(folder):
  block = ml_collections.ConfigDict(
    {'cap': 0.5, 'terms': {'rm': _block(folder, weight=0.25)}}
  )
  groups, told = shaping.add(
    episode.groups(PLAYED), build.terms_of(block), cap=block.cap
  )
  scores = reward_models.outcome(path=folder)(PLAYED)
  for before, after, score in zip(PLAYED, groups[0].episodes, scores):
    gained = episode.total_reward(after) - episode.total_reward(before)
    np.testing.assert_allclose(gained, 0.25 * score, atol=1e-5)
  np.testing.assert_allclose(told['rm'], 0.25 * np.mean(scores), atol=1e-5)


def test_a_run_is_rewarded_by_it(folder, model_folder, tmp_path):
  config = tiny.config(
    model_folder,
    steps=1,
    reward={'terms': {'rm': _block(folder, weight=0.5)}},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 4},
  )
  loop.train(config, tmp_path)
  (row,) = tiny.rows(tmp_path)
  assert 0 < row['reward/rm'] < 0.5
