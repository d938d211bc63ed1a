"""Runs whose rollouts run ahead: how old, how often, and what a kill costs."""

import asyncio
import itertools
import json
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl.rollout import local
from arl.train import (
  carried,
  engines,
  evaluation,
  gather,
  loop,
  metrics,
  pipeline,
  playing,
)

pytestmark = pytest.mark.usefixtures('compiled_once')
STEPS, AHEAD, BATCH, CUT = 6, 2, 4, 3
TIS = {'name': 'offpolicy.tis', 'base': 'grpo.dapo'}


def slow(**settings):
  """Letters whose second turn takes from nothing to 60 ms, by the task."""
  inner = tiny.letters(**settings)

  def step(state, text):
    if state[1]:
      time.sleep(0.02 * (len(state[0] + text) % 4))
    return inner.step(state, text)

  return inner._replace(step=step)


def settings(folder, **blocks):
  made = tiny.config(
    folder, steps=STEPS, method=TIS, env={'name': 'test_rollouts_ahead.slow'}
  )
  made.rollout.update(strategy='asynchronous.multi_turn', ahead=AHEAD, window=5)
  made.prompts.in_flight = 6
  made.eval.update(every=3, tasks=1, final_tasks=2)
  made.checkpoint.update(every=1, keep=9)
  for name, block in blocks.items():
    made[name].update(block)
  return made


@pytest.fixture(scope='module')
def noted():
  """The numbers of the groups of each batch, as they are taken."""
  numbers, batch = [], pipeline._Sampler.batch

  def note(sampler, most, least):
    items = batch(sampler, most, least)
    numbers.append([item.number for item in items])
    return items

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(pipeline._Sampler, 'batch', note)
    yield numbers


@pytest.fixture(scope='module')
def run(model_folder, tmp_path_factory, compiled_once, noted):
  """(folder, state, numbers of each batch, versions of each evaluation)."""
  del compiled_once
  folder = tmp_path_factory.mktemp('ahead') / 'whole'
  noted.clear()
  with pytest.MonkeyPatch.context() as patch:
    evaluated = evaluations(patch)
    now = loop.train(settings(model_folder), folder)
  return folder, now, noted.copy(), evaluated


def evaluations(patch):
  """The versions that each evaluation was sampled with, as they are made."""
  versions, run = [], evaluation.run

  def watched(*args):
    episodes = run(*args)
    columns = [one.extras['rollout_version'][one.mask] for one in episodes]
    versions.append(set(np.concatenate(columns).tolist()))
    return episodes

  patch.setattr(evaluation, 'run', watched)
  return versions


def test_rollouts_run_ahead_within_the_bound(run):
  folder, now, numbers, _ = run
  assert int(now.updates) == 2 * STEPS
  rows = tiny.rows(folder)
  ages = [row['ahead/age_max'] for row in rows]
  assert ages[0] == 0 and 0 < max(ages) <= AHEAD
  for row in rows:
    assert 0 <= row['ahead/age'] <= row['ahead/age_max']
    waiting = row['ahead/finished'] + row['ahead/running']
    assert waiting <= (AHEAD + 1) * BATCH and row['ahead/running'] <= 6
  assert [len(batch) for batch in numbers] == [BATCH] * STEPS
  flat = list(itertools.chain(*numbers))
  assert len(set(flat)) == len(flat)


def test_an_evaluation_is_of_the_weights_of_its_step(run):
  """Before training, with what is shown; after step 3; and at the end."""
  versions = [0] * 3 + [3] * 2 + [STEPS] * 5
  assert run[3] == [{version} for version in versions]


def test_parts_that_overlap_are_shares_of_the_step(run):
  for row in metrics.read(run[0]):
    shares = [x for name, x in row.items() if name.startswith('share/')]
    assert all(0 <= share <= 1 for share in shares)
    assert 0 <= row['time/waited'] <= row['time/step']


def test_the_number_of_compilations_is_bounded(run):
  compiled = json.loads((run[0] / 'results.json').read_text())['compiles']
  assert compiled['engine_generate'] <= 4 and compiled['engine_feed'] <= 8


def kept_at(folder, step):
  """What a checkpoint has of the groups on their way."""
  meta = json.loads((folder / f'checkpoints/{step}/meta/metadata').read_text())
  return carried.from_json(meta['gathered'], slow()).ahead


def test_after_a_kill_nothing_is_lost_or_trained_on_twice(
  run, model_folder, tmp_path, noted
):
  folder = tmp_path / 'cut'
  tiny.cut(run[0], folder, CUT)
  queue = kept_at(folder, CUT)
  assert queue.updates == CUT  # what AReaL has to set anew: version * batch
  assert queue.pending() and queue.finished() and not queue.running()
  noted.clear()
  now = loop.train(settings(model_folder), folder)
  assert int(now.updates) == 2 * STEPS
  before = list(itertools.chain(*run[2][:CUT]))
  after = list(itertools.chain(*noted))
  assert len(set(before + after)) == STEPS * BATCH
  rows = tiny.rows(folder)
  assert max(row['ahead/age_max'] for row in rows) <= AHEAD
  end = kept_at(folder, STEPS)
  given_up = sum(row['ahead/given_up'] for row in rows)
  on_their_way = len(end.items)
  assert end.chosen == STEPS * BATCH + given_up + on_their_way
  assert not set(before + after) & set(end.items)


class OneByOne:
  """An engine that computes each request alone, from its first token on.

  What is asked beside it, and before, changes no bit.
  """

  def __init__(self, loaded, seed):
    self._engine = local.LocalEngine(
      loaded.model, loaded.params, slots=1, context=24, seed=seed
    )
    self._given, self._lock = (loaded.params, 0), threading.Lock()
    self.score, self.compiles = self._engine.score, self._engine.compiles

  def set_params(self, params, version):
    self._given = jax.tree.map(jnp.copy, params), version

  def generate(self, requests, sampling):
    return [self._one(request, sampling) for request in requests]

  async def sample(self, request, sampling):
    return await asyncio.to_thread(self._one, request, sampling)

  def _one(self, request, sampling):
    with self._lock:
      self._engine.set_params(*self._given)
      return self._engine.generate([request], sampling)[0]


def test_at_bound_0_the_queue_gives_the_batches_of_the_plain_loop(
  model_folder, tmp_path, monkeypatch
):
  """Bit for bit: parameters, the state of the optimizer, and metrics."""
  plain = settings(model_folder, rollout={'ahead': 0, 'window': 0})
  plain.prompts.in_flight, plain.steps = 0, 4

  def embedded(config, loaded, tokenizer):
    del tokenizer
    return OneByOne(loaded, config.seed)

  def queued(run):
    config = run.config.copy_and_resolve_references()
    config.prompts.in_flight = 3
    return pipeline.player(run._replace(config=config))

  monkeypatch.setattr(engines, 'make', embedded)
  first = loop.train(plain, tmp_path / 'plain')
  monkeypatch.setattr(playing, 'player', queued)
  second = loop.train(plain, tmp_path / 'queued')
  tiny.same(first, second)
  left, right = (tiny.rows(tmp_path / name) for name in ('plain', 'queued'))
  added = {k for row in right for k in row if k.startswith('ahead/')}
  assert left == [
    {k: v for k, v in row.items() if k not in added} for row in right
  ]
  assert all(row['ahead/age_max'] == 0 for row in right)


# --- Settings that cannot be --------------------------------------------------


@pytest.mark.parametrize(
  'blocks, words',
  [
    ({'rollout': {'ahead': -1}}, 'config.rollout.ahead is -1 and window 5'),
    ({'rollout': {'ahead': 0}}, 'config.rollout.ahead is 0 and window 5; set'),
    (
      {'rollout': {'strategy': 'strategies.multi_turn'}},
      "rollout.strategy is 'strategies.multi_turn': each episode goes on by",
    ),
    ({'rollout': {'lag': 1}}, 'but rollout.lag is 1: ahead is how old'),
    ({'rollout': {'budget': 3}}, 'but rollout.budget is 3: no episode waits'),
    ({'rollout': {'stop_text': 'a'}}, 'which the embedded engine cannot spell'),
    ({'prompts': {'rounds': 2}}, 'but prompts.rounds is 2: a batch is what'),
    ({'prompts': {'max_age': 1}}, 'but prompts.max_age is 1: ahead is how old'),
    ({'prompts': {'in_flight': 0}}, 'set config.prompts.in_flight to how many'),
    (
      {'prompts': {'replay': {'name': 'replay.mixture', 'size': 8}}},
      "prompts.replay.name is 'replay.mixture': a group is trained on once",
    ),
    ({'updates': {'routing': 'rollout'}}, 'the weights change within an'),
    (
      {'knobs': {'temperature': {'name': 'knobs.linear'}}},
      'config.knobs.temperature follows the policy from step to step',
    ),
    ({'engine': {'pause': 'stop'}}, "config.engine.pause is 'stop'; use one"),
  ],
)
def test_settings_that_cannot_be(model_folder, blocks, words):
  config = settings(model_folder)
  for name, block in blocks.items():
    config[name].update(block)
  with pytest.raises(ValueError) as error:
    gather.choosing.check(config, slow())
  assert words in str(error.value)


def test_a_method_that_takes_old_samples_for_its_own_is_refused(model_folder):
  config = settings(model_folder)
  config.method = {'name': 'grpo.dapo'}
  with pytest.raises(ValueError, match='config.rollout.ahead is 2, but grpo'):
    gather.choosing.check(config, slow())
