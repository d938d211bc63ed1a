"""Which groups of a rollout batch are worth an update."""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.prompts import collapse


def everything(groups: Sequence[episode.Group]) -> list[episode.Group]:
  """All groups: for methods whose credit does not come from a comparison."""
  return list(groups)


def varied(groups: Sequence[episode.Group]) -> list[episode.Group]:
  """The groups whose rewards differ; the others have no group advantage.

  The filter of DAPO's dynamic sampling (arXiv:2503.14476, 3.2);
  config.prompts.rounds samples further prompts to fill the batch.
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
  spread = {i: collapse.deviation(group) for i, group in enumerate(groups)}
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


def of_mass(scores: np.ndarray, mass: float) -> np.ndarray:
  """The smallest set that holds the share `mass` of all scores, bool [n].

  Of scores >= 0, the largest first and of equal ones the earlier; those of 0
  are never in it. Shares, not a softmax as in RAGEN's notes: of small scores
  that is nearly uniform and keeps a share `mass` of the groups, whichever.
  """
  order = np.argsort(-scores, kind='stable')
  before = np.cumsum(scores[order]) - scores[order]
  kept = np.zeros(len(scores), bool)
  kept[order] = before < mass * np.sum(scores) * (1 - 1e-9)
  return kept & (scores > 0)


def of_number(scores: np.ndarray, share: float) -> np.ndarray:
  """The largest scores, a share of their number rounded up, bool [n]."""
  order = np.argsort(-scores, kind='stable')
  kept = np.zeros(len(scores), bool)
  kept[order[: int(np.ceil(share * len(scores) - 1e-9))]] = True
  return kept & (scores > 0)


def of_height(scores: np.ndarray, least: float) -> np.ndarray:
  """The scores of at least a share of the largest, bool [n]."""
  return (scores > 0) & (scores >= least * np.max(scores, initial=0))


def _by_variance(groups, rule) -> list[episode.Group]:
  """The groups whose variances of reward a rule keeps, in their order."""
  variances = np.array([collapse.deviation(group) ** 2 for group in groups])
  variances[variances < 1e-12] = 0  # rewards are float32 and come in parts
  return [group for group, kept in zip(groups, rule(variances)) if kept]


def signal(
  groups: Sequence[episode.Group], mass: float = 0.9
) -> list[episode.Group]:
  """The groups that hold most of the variance of rewards, in their order.

  RAGEN-2's filter by signal to noise (arXiv:2604.06268): where rewards hardly
  differ, what pushes the policy is not the task but the regularizers. The share
  is ours; config.prompts.scale makes the loss smaller where few are kept.
  """
  return _by_variance(groups, lambda scores: of_mass(scores, mass))


def signal_number(
  groups: Sequence[episode.Group], share: float = 0.5
) -> list[episode.Group]:
  """The share of the groups whose rewards vary most: another of its rules."""
  return _by_variance(groups, lambda scores: of_number(scores, share))


def signal_height(
  groups: Sequence[episode.Group], least: float = 0.1
) -> list[episode.Group]:
  """Groups with a share of the largest variance at least: its third rule."""
  return _by_variance(groups, lambda scores: of_height(scores, least))
