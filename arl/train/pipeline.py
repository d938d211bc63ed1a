"""Rollouts that run ahead of the learner, at most so many versions.

Groups of episodes are sampled in the background, each episode at its own pace,
while the learner updates; new weights reach the sampler while requests run, and
every token keeps the version that sampled it. The learner takes a batch of
whole groups from a queue (`arl.rollout.group_queue`): the gate of `staleness`
lets groups begin, the window of `windowed` orders them, and what is older than
config.rollout.ahead versions is given up. The gate bounds what is held too.

A group's randomness depends on its number alone. With ahead = 0 groups begin
once the learner waits for them, so the batches are those of the plain loop, bit
for bit; further ahead they depend on what finishes when, and no run is another.
"""

import asyncio
import concurrent.futures
import time
from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.rollout import asynchronous, event_loop, group_queue
from arl.train import batch, carried, evaluation, playing


def player(run: playing.Run) -> playing.Player:
  """Plays rounds from a queue that fills in the background.

  Its threads begin with the first round and end with `close`. What goes wrong
  in one of them ends all, and is raised by the round.
  """
  made: list[_Sampler] = []  # one, once it was begun

  def play(kept, now):
    if not made:
      queue = kept.ahead or group_queue.opened(run.config.rollout.window)
      made.append(_Sampler(run, queue, now.version))
    return _play(made[0], run, kept, now)

  def handed(version):
    for sampler in made:
      sampler.hand_over(version)

  def keep(kept):
    return kept._replace(ahead=made[0].queue) if made else kept

  def close():
    while made:
      made.pop().close()

  return playing.Player(play, handed, keep, close)


def _play(
  sampler: '_Sampler', run: playing.Run, kept: carried.Kept, now: playing.Now
) -> playing.Played:
  """Chooses ahead, waits for a batch, and tells how old it is."""
  began, p, lag = time.monotonic(), run.config.prompts, run.config.rollout.ahead
  given_up, chosen = sampler.drop(now.version), kept.chosen
  enough, items, more = (lag + 2) * p.batch, list[group_queue.Item](), True
  while more and not items:
    while more and len(sampler.queue.items) < enough:
      step = sampler.queue.chosen // p.batch
      tasks, chosen = run.curriculum.choose(chosen, step)
      sampler.offer(tasks)
      more = bool(tasks)
    items = sampler.batch(p.batch, least=p.batch if more else 1)
    enough += p.batch
  kept = kept._replace(chosen=chosen, ahead=sampler.queue)
  if not items:
    return playing.Played(None, kept, {})
  episodes = [one for item in items for one in item.episodes]
  batch.check_failed(episodes, run.config.rollout.max_failed)
  batch.check_versions(episodes, now.version, lag)
  facts = {
    **_ages(episodes, now.version),
    'ahead/finished': len(sampler.queue.finished()),
    'ahead/running': len(sampler.queue.running()),
    'ahead/given_up': given_up,
    'time/waited': time.monotonic() - began,
  }
  return playing.Played(episodes, kept, facts)


def _ages(
  episodes: Sequence[episode.Episode], version: int
) -> dict[str, float]:
  """How many versions old sampled tokens are: mean, and the most."""
  ages = [version - one.extras['rollout_version'][one.mask] for one in episodes]
  flat = np.concatenate([np.zeros(0, int), *ages])
  if not flat.size:
    return {'ahead/age': 0.0, 'ahead/age_max': 0.0}
  return {'ahead/age': float(flat.mean()), 'ahead/age_max': float(flat.max())}


class _Sampler:
  """A queue and what fills it; all of it belongs to one event loop.

  Attributes:
    queue: to read, from any thread.
  """

  def __init__(self, run: playing.Run, queue: group_queue.Queue, version: int):
    p, r = run.config.prompts, run.config.rollout
    self.queue, self._run, self._version = queue, run, version
    self._gate = group_queue.Gate(p.batch, p.in_flight, r.ahead)
    self._groups: dict[int, asyncio.Task] = {}
    self._error: BaseException | None = None
    self._changed = asyncio.Event()
    self._loop = event_loop.Loop()
    self._pool = concurrent.futures.ThreadPoolExecutor(
      asynchronous.STEPS, 'environment'
    )

  def offer(self, tasks: Sequence[episode.Task]) -> None:
    """Takes tasks in, to be played when the gate lets them."""
    self._loop.run(self._offer(tasks))

  def hand_over(self, version: int) -> None:
    """Says that the engine holds the weights of a version."""
    self._loop.run(self._hand_over(version))

  def drop(self, version: int) -> int:
    """Gives up what is too old for the update of a version; how many."""
    return self._loop.run(self._drop(version))

  def batch(self, most: int, least: int) -> list[group_queue.Item]:
    """Waits for a batch, and takes it.

    Args:
      most: groups of a full one.
      least: that are taken once nothing runs any more; else none are.

    Raises:
      Exception: what ended the rollouts.
    """
    return self._loop.run(self._batch(most, least))

  def close(self) -> None:
    """Ends what runs, and the threads."""
    self._loop.run(self._stop())
    self._loop.stop()
    self._pool.shutdown(cancel_futures=True)

  async def _offer(self, tasks):
    self.queue = group_queue.choose(self.queue, tasks)
    self._issue()

  async def _hand_over(self, version):
    self._version = version
    self._issue()

  async def _drop(self, version):
    self.queue, old = group_queue.drop(self.queue, version, self._gate.lag)
    for item in old:
      if item.number in self._groups:
        self._groups[item.number].cancel()
    self._issue()
    return len(old)

  async def _batch(self, most, least):
    while self._error is None:
      queue, items = group_queue.take(self.queue, most)
      over = not self.queue.running()
      if len(items) == most or (over and len(items) >= least):
        self.queue = queue
        self._issue()
        return items
      if over and self.queue.pending():
        raise RuntimeError(
          f'rollouts: nothing runs and nothing can begin, with {self._gate} at'
          f' version {self._version} after {self.queue.updates} batches.'
        )
      if over:
        return []
      self._changed.clear()
      await self._changed.wait()
    raise self._error

  async def _stop(self):
    groups = list(self._groups.values())
    for group in groups:
      group.cancel()
    await asyncio.gather(*groups, return_exceptions=True)

  def _issue(self):
    """Begins what the gate lets through."""
    if self._error is not None:
      return
    self.queue, items = group_queue.issue(self.queue, self._version, self._gate)
    for item in items:
      self._groups[item.number] = asyncio.create_task(self._play(item))

  async def _play(self, item):
    """One group, from its task to the end of its last episode."""
    try:
      episodes = await self._episodes(item)
    except Exception as error:
      self._error = self._error or error
      for number, group in self._groups.items():
        if number != item.number:
          group.cancel()
    else:
      self.queue = group_queue.finish(self.queue, item.number, episodes)
      self._issue()
    finally:
      del self._groups[item.number]
      self._changed.set()

  async def _episodes(self, item):
    """The path of a group is that which it has in the plain loop."""
    world, p = self._run.world, self._run.config.prompts
    step, place = divmod(item.number, p.batch)
    path = (*evaluation.training_path(step, 0), place)
    plan = evaluation.plan(world, p.samples, self._run.sampling, path)
    one = asynchronous.one
    return await event_loop.together(
      [
        one(
          world.engine, self._pool, world.env, world.chat, plan, item.task,
          sample, path,
        )
        for sample in range(p.samples)
      ]
    )  # fmt: skip
