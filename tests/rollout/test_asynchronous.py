"""Episodes at their own pace are those that advance together."""

import threading
import time

import numpy as np
import pytest
import tiny

from arl import episode
from arl.envs import base
from arl.models import hf
from arl.rollout import (
  asynchronous,
  chat,
  continuous,
  engine,
  local,
  strategies,
)

LIMITS = strategies.Limits(2, 6, 24, 24)


def roll_out(strategy, made, env, count=4, samples=3):
  tasks = [env.task(base.TRAIN, i) for i in range(count)]
  plan = strategies.Plan(samples, engine.Sampling(), LIMITS, (5, 1))
  talk = chat.chat(tiny.tokenizer(), observation_role='user')
  return strategy(made, env, talk, tasks, plan)


def same(left, right):
  assert left.task == right.task
  assert (left.status, left.sample) == (right.status, right.sample)
  assert left.exchanges == right.exchanges
  for name in ('tokens', 'mask', 'logp', 'rewards', 'turn'):
    np.testing.assert_array_equal(getattr(left, name), getattr(right, name))


@pytest.mark.parametrize(
  'kind', [local.LocalEngine, continuous.ContinuousEngine]
)
def test_both_strategies_make_the_same_episodes(kind, tmp_path):
  loaded = hf.load(tiny.write_model(tmp_path / 'model'))
  made = kind(loaded.model, loaded.params, slots=4, context=24, seed=3)
  env = tiny.letters()
  together = roll_out(strategies.multi_turn, made, env)
  apart = roll_out(asynchronous.multi_turn, made, env)
  assert len(together) == len(apart) == 12
  for left, right in zip(together, apart):
    same(left, right)


class Talker:
  """An engine with coroutines; it notes when what is asked."""

  def __init__(self):
    self.asked = []

  async def sample(self, request, sampling):
    self.asked.append(request.path)
    n = len(request.tokens)
    ids = np.array([2, sampling.stop[0]], np.int32)
    return engine.Sample(
      ids, np.zeros(2, np.float32), engine.STOP, np.zeros(2, np.int32), None,
      None, n,
    )  # fmt: skip


def test_a_slow_environment_holds_up_itself_alone():
  inner, fast = tiny.letters(), threading.Event()
  done = []

  def step(state, text):
    slow = state[0] == inner.task(base.TRAIN, 0).id
    if slow:
      assert fast.wait(20)  # not before all others are at their end
    state, turn = inner.step(state, text)
    done.append(slow)
    if done.count(False) == 3 * 2:
      fast.set()
    return state, turn

  env = inner._replace(step=step)
  made = roll_out(asynchronous.multi_turn, Talker(), env, samples=1)
  assert [e.status for e in made] == [episode.FINISHED] * 4
  assert done == [False] * 6 + [True] * 2


def test_what_breaks_the_engine_ends_all():
  class Broken(Talker):
    async def sample(self, request, sampling):
      if request.path[2] == 1:
        raise RuntimeError('no server')
      return await super().sample(request, sampling)

  before = threading.active_count()
  with pytest.raises(RuntimeError, match='no server'):
    roll_out(asynchronous.multi_turn, Broken(), tiny.letters())
  deadline = time.monotonic() + 20
  while threading.active_count() > before:
    assert time.monotonic() < deadline
    time.sleep(0.01)
