"""Whether rollouts still differ, within a task and from task to task."""

import statistics
from collections.abc import Sequence

import numpy as np

from arl import episode

_STEPS = 10


def deviation(group: episode.Group) -> float:
  """Standard deviation of the total rewards of a group's trajectories."""
  members = episode.whole(group.episodes)
  return statistics.pstdev(map(episode.total_reward, members))


def watch(
  spreads: Sequence[float], groups: Sequence[episode.Group], *, least: float
) -> tuple[tuple[float, ...], dict[str, float]]:
  """Whether the spread of rewards within groups has been lost for good.

  RAGEN-2 (arXiv:2604.06268) stops after 10 steps in a row whose mean deviation
  within groups is below a tenth of that of the first 10.

  Args:
    spreads: of the first 10 steps and of the last 10 after them.
    groups: of this step, all of them, not only those that were selected.
    least: the share of the first mean below which a step counts; 0 for never.

  Returns:
    (the next `spreads`, metrics: `spread`, of this step, and `collapsed`, 1
    where the rule holds). Nothing is watched where `least` is 0.
  """
  if not least:
    return (), {}
  spread = float(np.mean([deviation(g) for g in groups])) if groups else 0.0
  spreads = (*spreads, spread)
  first, last = spreads[:_STEPS], spreads[_STEPS:][-_STEPS:]
  below = [x < least * float(np.mean(first)) for x in last]
  over = len(last) == _STEPS and all(below)
  return (*first, *last), {'spread': spread, 'collapsed': float(over)}


def information(scores: np.ndarray) -> float:
  """Mutual information of prompt and reasoning, in nats; at most log n.

  mean_i (l_ii - log mean_j exp l_ij), RAGEN-2 (arXiv:2604.06268). Entropy is
  I(X; Z) + H(Z | X): it may stay high while the prompt no longer matters, which
  is a template.

  Args:
    scores: [n, n], mean log-prob of a token of reasoning i behind prompt j.
  """
  most = scores.max(axis=1, keepdims=True)
  means = np.log(np.mean(np.exp(scores - most), axis=1)) + most[:, 0]
  return float(np.mean(np.diag(scores) - means))


def retrieval(scores: np.ndarray) -> float:
  """How often the likeliest prompt of a reasoning is its own; scores as above.

  Ties are shared, so that prompts which do not matter give 1 / n.
  """
  best = scores == scores.max(axis=1, keepdims=True)
  return float(np.mean(np.diag(best) / best.sum(axis=1)))
