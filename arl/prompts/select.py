"""Which groups of a rollout batch are worth an update."""

import statistics
from collections.abc import Sequence

from arl import episode


def everything(groups: Sequence[episode.Group]) -> list[episode.Group]:
  """All groups: for methods whose credit does not come from a comparison."""
  return list(groups)


def varied(groups: Sequence[episode.Group]) -> list[episode.Group]:
  """The groups whose rewards differ; the others have no group advantage.

  The filter of DAPO's dynamic sampling (arXiv:2503.14476, 3.2), without its
  sampling of further prompts to fill the batch.
  """

  def differs(group):
    rewards = [episode.total_reward(e) for e in episode.whole(group.episodes)]
    return max(rewards) - min(rewards) > 1e-6

  return [group for group in groups if differs(group)]


def most_varied(groups: Sequence[episode.Group]) -> list[episode.Group]:
  """The quarter of the groups whose rewards deviate most, in their order.

  StarPO-S's filter by uncertainty (RAGEN, arXiv:2504.20073, whose code keeps a
  quarter): of as many groups as come, a quarter rounded up. Ties go to the
  earlier group, and groups without a spread are never kept.
  """

  def deviation(group):
    members = episode.whole(group.episodes)
    return statistics.pstdev(map(episode.total_reward, members))

  spread = {i: deviation(group) for i, group in enumerate(groups)}
  order = sorted(spread, key=lambda i: -spread[i])  # stable: earlier first
  kept = order[: -(-len(groups) // 4)]
  return [groups[i] for i in sorted(kept) if spread[i] > 1e-6]


def finished(groups: Sequence[episode.Group]) -> list[episode.Group]:
  """The varied groups of what is left without episodes that a limit cut off.

  Compact filtering (DeepSWE's GRPO++): what timed out or ran into a budget
  leaves before groups are compared, so a baseline counts survivors only.
  """
  ended = [
    group._replace(
      episodes=[e for e in group.episodes if e.status == episode.FINISHED]
    )
    for group in groups
  ]
  return varied([group for group in ended if group.episodes])
