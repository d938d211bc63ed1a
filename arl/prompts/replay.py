"""Groups that are trained on again: what is kept of them, and what is drawn.

A buffer is a tuple of items, the oldest first, and never changes: what is drawn
comes with the next buffer. Episodes keep the log-probs that they were sampled
with, so a method with a correction for stale rollouts is right about them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from arl import episode, ranges

Facts = dict[str, float]


class Item(NamedTuple):
  """A group and what is known of it.

  Attributes:
    group: as it would be trained on.
    version: of the weights that sampled it.
    uses: how often it was trained on.
  """

  group: episode.Group
  version: int
  uses: int = 0


class Now(NamedTuple):
  """When something is drawn.

  Attributes:
    version: of the weights that sampled the fresh items.
    batch: groups of a batch.
    max_age: the most versions by which an item may lie behind.
    progress: share of the run that is done.
    rng: of this draw alone.
    score: episodes -> log-probs of their tokens, [n] each, under the policy
      that sampled the fresh items.
  """

  version: int
  batch: int
  max_age: int
  progress: float
  rng: np.random.Generator
  score: Callable[[Sequence[episode.Episode]], Sequence[np.ndarray]]


class Drawn(NamedTuple):
  """What a step trains on.

  Attributes:
    items: in order; `uses` as before this step.
    weights: what the loss of each is multiplied by.
    buffer: after the step.
    facts: metrics.
  """

  items: list[Item]
  weights: list[float]
  buffer: tuple[Item, ...]
  facts: Facts


class Replay(NamedTuple):
  """A way to train on groups again.

  Attributes:
    draw: (buffer, fresh items, now) -> Drawn.
    extra: (groups of a batch) -> how many more than those it may draw.
    stale: whether it draws items of earlier versions.
  """

  draw: Callable[[tuple[Item, ...], Sequence[Item], Now], Drawn]
  extra: Callable[[int], int] = lambda batch: 0
  stale: bool = True


def none() -> Replay:
  """What was sampled is trained on once, at once."""
  return Replay(
    lambda buffer, fresh, now: Drawn(
      list(fresh), [1.0] * len(fresh), buffer, {}
    ),
    stale=False,
  )


def spread(group: episode.Group) -> float:
  """Mean |R - mean R| of a group: its mean |advantage| before any scale."""
  members = episode.whole(group.episodes)
  totals = np.array([episode.total_reward(one) for one in members])
  return float(np.mean(np.abs(totals - totals.mean()))) if len(totals) else 0.0


def chances(
  priorities: np.ndarray, *, alpha: float, epsilon: float
) -> np.ndarray:
  """p proportional to (|A| + epsilon)^alpha (Schaul et al., arXiv:1511.05952).

  Args:
    priorities: |A| >= 0, [n].
    alpha: 0 for all alike.
    epsilon: above 0, so that no item is out of reach.
  """
  raised = (priorities + epsilon) ** alpha
  return raised / raised.sum()


def importance(chance: np.ndarray, *, beta: float) -> np.ndarray:
  """(N p)^-beta over its largest value (arXiv:1511.05952, 3.4), [n]."""
  weights = (len(chance) * chance) ** -beta
  return weights / weights.max()


def living(
  buffer: Sequence[Item], version: int, *, max_age: int, max_uses: int
) -> list[Item]:
  """The items that are neither too old nor used up, in their order."""
  return [
    item
    for item in buffer
    if version - item.version <= max_age and item.uses < max_uses
  ]


def mixture(
  *,
  size: ranges.Count,
  share: ranges.Fraction = 0.25,
  alpha: ranges.Fraction = 0.6,
  beta: ranges.Fraction = 0.4,
  epsilon: ranges.Positive = 0.01,
  max_uses: ranges.Count = 2,
) -> Replay:
  """A ring of groups, drawn from by priority and otherwise the newest first.

  Each place of a batch is given, with the chance `share`, to an item drawn by
  its mean |advantage| from all that the ring holds and this batch does not,
  weighed by (N p)^-beta, where beta grows to 1 over the run; else to the newest
  that nothing was trained on yet, with weight 1; where there is none, by
  priority as well. With share 0 what is sampled
  is trained on once, in its order, as without a ring. No weights of a reward:
  they would drill what succeeds anyway.

  Args:
    size: groups that the ring holds; the oldest fall out.
    share: of the places that are given by priority.
    alpha: of the priorities, see `chances`.
    beta: of the weights at the start, see `importance`.
    epsilon: see `chances`.
    max_uses: how often an item is trained on at most.
  """

  def draw(buffer, fresh, now):
    ages = {'max_age': now.max_age, 'max_uses': max_uses}
    alive = living(buffer, now.version, **ages)
    held = [*alive, *fresh][-size:]
    lost = len(buffer) + len(fresh) - len(held)
    unused = [i for i, item in enumerate(held) if not item.uses]
    unused.sort(key=lambda i: -held[i].version)  # stable: in their order
    left, drawn, weights = set(range(len(held))), [], []
    risen = beta + (1 - beta) * now.progress
    for _ in range(now.batch):
      unused = [i for i in unused if i in left]
      if left and share and (not unused or now.rng.random() < share):
        places = sorted(left)
        worth = np.array([spread(held[i].group) for i in places])
        chance = chances(worth, alpha=alpha, epsilon=epsilon)
        pick = int(now.rng.choice(len(places), p=chance))
        weights.append(float(importance(chance, beta=risen)[pick]))
        drawn.append(places[pick])
      elif unused:
        drawn.append(unused[0])
        weights.append(1.0)
      else:
        continue
      left.remove(drawn[-1])
    taken = set(drawn)
    after = tuple(
      item._replace(uses=item.uses + (i in taken))
      for i, item in enumerate(held)
    )
    items = [held[i] for i in drawn]
    return Drawn(items, weights, after, {**_facts(items, now), 'lost': lost})

  return Replay(draw)


def _facts(items: Sequence[Item], now: Now) -> Facts:
  """How old what is drawn is, and how much of it was used before."""
  if not items:
    return {}
  ages = [now.version - item.version for item in items]
  return {
    'age': float(np.mean(ages)),
    'oldest': float(max(ages)),
    'again': float(np.mean([item.uses > 0 for item in items])),
  }
