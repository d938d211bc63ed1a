"""Episodes in parts: nothing is lost, sampled twice or renamed."""

import functools
import json

import jax
import numpy as np
import pytest
import tiny

from arl import episode
from arl.envs import base
from arl.models import transformer
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import local, partial, strategies

LIMITS = strategies.Limits(2, 6, 24, 24)
TASKS, SAMPLES = 3, 2


@pytest.fixture(scope='module')
def engine():
  model = transformer.make(SIZE)
  params = model.init(jax.random.key(0))
  return local.LocalEngine(model, params, slots=6, context=24, seed=0)


# Of narrower heads the bits may depend on how their keys came to be cached.
SIZE = tiny.size()._replace(head_dim=16)
ENV = tiny.letters()
CHAT = chat_lib.chat(tiny.tokenizer())


def plan(step=0):
  sampling = engine_lib.Sampling()
  return strategies.Plan(SAMPLES, sampling, LIMITS, (0, step))


def tasks():
  return [ENV.task(base.TRAIN, i) for i in range(TASKS)]


def begun():
  return partial.begin(ENV, CHAT, tasks(), plan(), 0)


def go(engine, parts, step, budget, enough=99):
  return partial.advance(
    parts, engine, ENV, CHAT, plan(step), budget=budget, enough=enough
  )


def same(left, right):
  for name in ('tokens', 'mask', 'logp', 'rewards', 'turn'):
    np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
  assert left.status == right.status and left.exchanges == right.exchanges
  assert left.extras.keys() == right.extras.keys()
  for name in left.extras:
    np.testing.assert_array_equal(left.extras[name], right.extras[name])


def test_with_room_they_are_whole_episodes(engine):
  whole = strategies.multi_turn(engine, ENV, CHAT, tasks(), plan())
  made = go(engine, begun(), 0, 99)
  assert [len(group) for group in partial.finished(made)] == [SAMPLES] * TASKS
  for part, one in zip(made, whole, strict=True):
    same(part.live.episode(), one)


@pytest.mark.parametrize('budget', [1, 2, 3])
def test_in_steps_every_token_keeps_its_version(engine, budget):
  parts, seen = begun(), [0]
  for step in range(99):
    engine.set_params(engine_params(step), step)
    before = [list(part.live.tokens) for part in parts]
    parts = go(engine, parts, step, budget)
    seen.append(sum(sum(part.live.mask) for part in parts))
    for old, part in zip(before, parts):
      assert part.live.tokens[: len(old)] == old  # append-only
    if len(partial.finished(parts)) == TASKS:
      break
  assert len(partial.finished(parts)) == TASKS and step > 0
  whole = [part.live.episode() for part in parts]
  assert sum(int(one.mask.sum()) for one in whole) == seen[-1]
  for one in whole:
    versions = one.extras['rollout_version'][one.mask]
    assert np.all(np.diff(versions) >= 0) and np.all(one.logp[one.mask] < 0)
    for turn in np.unique(one.turn[one.mask]):
      assert np.sum(one.mask & (one.turn == turn)) <= LIMITS.turn_tokens
    assert len(one.exchanges) == len(np.unique(one.turn[one.mask]))
    for turn, each in enumerate(one.exchanges):
      ids = one.tokens[one.mask & (one.turn == turn)].tolist()
      assert CHAT.decode(ids) == each.action


@functools.cache
def engine_params(step):
  return transformer.make(SIZE).init(jax.random.key(step))


def test_log_probs_are_those_of_the_weights_that_sampled(engine):
  parts = begun()
  for step in range(2):
    engine.set_params(engine_params(step), step)
    parts = go(engine, parts, step, 3)
    for part in parts:
      row = part.live
      (logp,) = engine.score([row.tokens], 1.0)
      mine = np.array(row.versions) == step
      np.testing.assert_allclose(
        logp[mine], np.array(row.logp)[mine], atol=1e-4
      )


def test_parts_go_through_json_and_go_on_alike(engine):
  engine.set_params(engine_params(0), 0)
  parts = go(engine, begun(), 0, 2)
  assert any(part.begins >= 0 for part in parts)  # inside an action
  told = json.loads(json.dumps([partial.to_json(part) for part in parts]))
  again = [partial.from_json(one, ENV) for one in told]
  for step in (1, 2, 3):
    parts, again = (go(engine, x, step, 3) for x in (parts, again))
  for left, right in zip(parts, again, strict=True):
    same(left.live.episode(), right.live.episode())
    assert left[1:] == right[1:]


def test_it_stops_once_enough_groups_are_finished(engine):
  engine.set_params(engine_params(0), 0)
  made = go(engine, begun(), 0, 99, enough=1)
  assert 1 <= len(partial.finished(made)) <= TASKS
  assert go(engine, made, 1, 99, enough=1)[0].live.tokens == (
    made[0].live.tokens
  )


def test_an_environment_that_answers_otherwise_ends_the_episode(engine):
  engine.set_params(engine_params(0), 0)
  parts = go(engine, begun(), 0, 6)
  (part, *_) = [p for p in parts if p.live.exchanges and not p.live.status]
  moody = ENV._replace(
    step=lambda state, text: (state, episode.Turn('other')),
  )
  made = partial.from_json(partial.to_json(part), moody)
  assert made.live.status == episode.ENVIRONMENT_ERROR
  assert "with 'other' and not 'd'" in made.live.error
