"""Samplers that wait for the longest episode of a step, or do not.

A clock without a model: an episode needs as many tokens as a heavy-tailed draw
says, and so many samplers give one token each a tick. A step is over once its
groups are finished; the samplers that have nothing left to do are idle.
"""

import functools
import heapq
from collections.abc import Callable

import numpy as np

BATCH, SAMPLES, SAMPLERS, LONGEST = 16, 8, 128, 4096


def lengths(rng: np.random.Generator, count: int) -> np.ndarray:
  """Tokens of the episodes of groups, [count, SAMPLES]: log-normal, cut."""
  drawn = rng.lognormal(5.0, 1.2, (count, SAMPLES))
  return np.minimum(np.ceil(drawn), LONGEST).astype(int)


def whole(seed: int, steps: int) -> dict[str, float]:
  """Each step waits for all that it began."""
  rng, busy, ticks = np.random.default_rng(seed), 0, 0
  for _ in range(steps):
    needs = lengths(rng, BATCH).ravel()
    free = [0] * SAMPLERS
    for need in needs:
      heapq.heappush(free, heapq.heappop(free) + int(need))
    ticks += max(free)
    busy += int(needs.sum())
  groups = steps * BATCH
  return {
    'idle': 1 - busy / (ticks * SAMPLERS),
    'ticks a group': ticks / groups,
    'tokens a group': busy / groups,
    'parts': 1.0,
    'given up': 0.0,
    'lost or twice': 0.0,
  }


def parts(
  seed: int, steps: int, *, budget: int, over: int, max_age: int
) -> dict[str, float]:
  """Episodes go on in later steps, with `over` groups played at a time.

  In a step each is sampled its budget at most, and what is unfinished when a
  batch of groups is stops; a group whose oldest token is too old is given up.
  """
  rng, ticks, spent, issued = np.random.default_rng(seed), 0, 0, 0
  left: dict[int, np.ndarray] = {}
  born: dict[int, int] = {}
  count: dict[int, int] = {}
  done: list[int] = []
  given_up: list[int] = []
  for step in range(steps):
    stale = [i for i in left if step - born[i] > max_age]
    given_up += stale
    for i in stale:
      del left[i]
    while len(left) + BATCH <= over:
      for need in lengths(rng, BATCH):
        left[issued], born[issued], count[issued] = need, step, 0
        issued += 1
    for i in left:
      count[i] += 1
    room = {i: np.full(SAMPLES, budget) for i in left}
    over_now = 0
    while over_now < BATCH:
      order = [(i, j) for i in sorted(left) for j in range(SAMPLES)]
      able = [(i, j) for i, j in order if left[i][j] and room[i][j]]
      if not able:
        if over_now:
          break
        room = {i: np.full(SAMPLES, budget) for i in left}
        continue
      running = able[:SAMPLERS]
      leap = min(min(left[i][j], room[i][j]) for i, j in running)
      ticks += int(leap)
      spent += int(leap) * len(running)
      for i, j in running:
        left[i][j] -= leap
        room[i][j] -= leap
      for i in [i for i in left if not left[i].any()]:
        del left[i]
        done.append(i)
        over_now += 1
  ends = [*done, *given_up, *left]
  return {
    'idle': 1 - spent / (ticks * SAMPLERS),
    'ticks a group': ticks / len(done),
    'tokens a group': spent / len(done),
    'parts': float(np.mean([count[i] for i in done])),
    'given up': len(given_up) / issued,
    'lost or twice': float(sorted(ends) != list(range(issued))),
  }


WAYS: dict[str, Callable[[int, int], dict[str, float]]] = {
  'whole episodes': whole,
  '32 groups at a time': functools.partial(
    parts, budget=LONGEST, over=32, max_age=8
  ),
  '32 groups, 512 tokens a step': functools.partial(
    parts, budget=512, over=32, max_age=8
  ),
  '48 groups, 512 tokens a step': functools.partial(
    parts, budget=512, over=48, max_age=8
  ),
  '32 groups, 256 tokens, age 4': functools.partial(
    parts, budget=256, over=32, max_age=4
  ),
}
