"""Groups that are cut off midway because their rollouts do the same.

Selective Rollout (arXiv:2605.05802): where all rollouts of a task have taken
nearly the same actions so far, they are likely to earn the same, and a group
whose rewards do not vary teaches a group-relative method nothing. What was
sampled until then is lost: it is a cost, and the episodes stay in the batch
with the status `dropped`, which has no grade and is no failure.
"""

from collections.abc import Sequence

from arl import episode
from arl.rollout import costs, distances, strategies


def cut(turns: int, *, least: float = 0.12) -> strategies.Strategy:
  """The strategy that looks once, after so many turns.

  The distance of two rollouts is that of their first actions, each action being
  one symbol, as a share of their number; one that has ended is filled up with a
  symbol of its own. A group is kept where all of it has ended by then, so
  episodes that are shorter are never cut, and where the environment failed.

  Args:
    turns: after which a group is looked at.
    least: the mean distance over all pairs below which it is cut.

  Raises:
    ValueError: a number that is out of its range.
  """
  if turns < 1 or not 0 <= least <= 1:
    raise ValueError(
      f'selective.cut: turns {turns}, least {least}; look after 1 turn or more,'
      ' with a distance from 0 to 1.'
    )

  def strategy(engine, env, chat, tasks, plan):
    """Multi-turn episodes, some `dropped`; as `strategies.multi_turn`."""
    groups = [
      [
        strategies.start(env, chat, task, plan.limits, i, (*plan.path, place))
        for i in range(plan.samples)
      ]
      for place, task in enumerate(tasks, plan.first)
    ]
    rows = [row for group in groups for row in group]
    taken = 0
    while going := [row for row in rows if not row.status]:
      strategies.take_turn(going, engine, env, chat, plan)
      taken += 1
      if taken == turns:
        for group in groups:
          _judge(group, turns, least)
    return [row.episode() for row in rows]

  strategy.tells = costs.cut  # type: ignore[attr-defined]
  return strategy


def alike(
  actions: Sequence[Sequence[str]], turns: int, least: float = 0.12
) -> bool:
  """Whether rollouts have done nearly the same in their first turns.

  Args:
    actions: of each rollout.
    turns: how many count.
    least: the mean distance of two below which they have.
  """
  return distances.pairwise(distances.prefixes(actions, turns)) < least


def _judge(group: Sequence[strategies.Live], turns: int, least: float) -> None:
  """Drops a group that goes on though its rollouts do the same."""
  ended = [row.status for row in group if row.status]
  if len(ended) == len(group) or set(ended) - episode.GRADED:
    return
  actions = [[e.action for e in row.exchanges] for row in group]
  if alike(actions, turns, least):
    for row in group:
      row.end(episode.DROPPED)


two, four, ten = cut(2), cut(4), cut(10)
