"""Many callers of an engine that answers batches."""

import asyncio

import conversations
import numpy as np
import pytest

from arl.rollout import batching, engine, scripted


class Slow(scripted.ScriptedEngine):
  """Notes its batches."""

  def __init__(self, script):
    super().__init__(script, vocab=99)
    self.batches = []

  def generate(self, requests, sampling):
    self.batches.append((len(requests), sampling.temperature))
    return super().generate(requests, sampling)


def request(i):
  return engine.Request((5, i), 8, (0, i))


def ask(one, count, **how):
  sampling = engine.Sampling(stop=(1,), **how)

  async def together():
    with batching.coroutines(one) as asked:
      return await asyncio.gather(
        *(asked.sample(request(i), sampling) for i in range(count))
      )

  return asyncio.run(together())


def test_each_gets_its_own_answer():
  one = Slow(lambda r: [r.tokens[1] + 2])
  samples = ask(one, 40)
  assert [s.tokens.tolist() for s in samples] == [[i + 2, 1] for i in range(40)]
  assert sum(count for count, _ in one.batches) == 40
  assert len(one.batches) < 10  # those that wait go together


def test_kinds_of_sampling_do_not_mix():
  one = Slow(lambda r: [7])

  async def together():
    with batching.coroutines(one) as asked:
      hot, cold = (engine.Sampling(t, stop=(1,)) for t in (1.0, 0.0))
      longer = request(3)._replace(path=(0, 1, 2))
      await asyncio.gather(
        asked.sample(request(1), hot),
        asked.sample(request(2), cold),
        asked.sample(longer, hot),
      )

  asyncio.run(together())
  assert sorted(one.batches) == [(1, 0.0), (1, 1.0), (1, 1.0)]


def test_a_stream_is_one_piece():
  one = Slow(lambda r: [7])

  async def pieces():
    with batching.coroutines(one) as asked:
      sampling = engine.Sampling(stop=(1,))
      return [s async for s in asked.stream(request(0), sampling)]

  (sample,) = asyncio.run(pieces())
  assert sample.finish == engine.STOP and sample.tokens.tolist() == [7, 1]


def test_an_engine_that_fails_fails_those_who_asked():
  def script(r):
    raise OSError('no device')

  with pytest.raises(OSError, match='no device'):
    ask(Slow(script), 2)


def test_what_is_broken_off_is_sampled_to_its_end():
  class Breaking(Slow):
    def generate(self, requests, sampling):
      (asked,) = requests
      said = {2: [3, 4], 4: [5, 1]}[len(asked.tokens)]
      self.batches.append((1, asked.max_tokens))
      return [
        engine.Sample(
          np.array(said),
          -np.ones(2, np.float32),
          engine.STOP if 1 in said else engine.ABORT,
          np.full(2, len(self.batches)),
        )
      ]

  one = Breaking(None)
  (sample,) = ask(one, 1)
  assert sample.tokens.tolist() == [3, 4, 5, 1]
  assert sample.versions.tolist() == [1, 1, 2, 2]
  assert one.batches == [(1, 8), (1, 6)]


def test_who_gave_up_is_not_asked_for():
  one = Slow(lambda r: [7])

  async def leave():
    with batching.coroutines(one) as asked:
      sampling = engine.Sampling(stop=(1,))
      task = asyncio.create_task(asked.sample(request(0), sampling))
      await asyncio.sleep(0)
      task.cancel()
      await asked.sample(request(1), sampling)

  asyncio.run(leave())
  assert one.batches == [(1, 1.0)]


def test_an_engine_with_coroutines_is_asked_itself():
  one = conversations.Script(None)
  with batching.coroutines(one) as asked:
    assert asked is one
