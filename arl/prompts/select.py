"""Which groups of a rollout batch are worth an update."""

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
    rewards = [episode.total_reward(e) for e in group.episodes]
    return max(rewards) - min(rewards) > 1e-6

  return [group for group in groups if differs(group)]
