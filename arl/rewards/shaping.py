"""What a config adds to rewards: small terms over the rollouts of a task.

A term is a function that a block of `config.reward.terms` names, and of which
the block's other keys are hyperparameters; `weight` is of the term. It takes
the trajectories of a task and gives a number for each. Together they are cut at
`config.reward.cap`, so that no failure comes to exceed a success. Metrics of
success are of the environment's own reward.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from arl import episode
from arl.rewards import composite, forms, lengths

Term = Callable[[Sequence[episode.Episode]], np.ndarray]


def overlong(*, longest: int, buffer: int) -> Term:
  """A penalty for sampling nearly too many tokens; see `lengths.overlong`."""

  def term(played):
    each = [
      lengths.overlong(n, longest=longest, buffer=buffer)
      for n in _tokens(played)
    ]
    return np.array(each)

  return term


def shortest() -> Term:
  """Kimi k1.5's length penalty within the group; see `lengths.in_group`."""

  def term(played):
    right = [episode.total_reward(e) >= episode.SOLVED for e in played]
    return lengths.in_group(_tokens(played), right)

  return term


def turns() -> Term:
  """Minus the number of actions: its weight is the cost of a step."""
  return lambda played: -np.array([len(e.exchanges) for e in played], float)


def think_answer() -> Term:
  """1 for a last action in R1's form; see `forms.think_answer`."""

  def term(played):
    said = [e.exchanges[-1].action if e.exchanges else '' for e in played]
    return np.array([float(forms.think_answer(text)) for text in said])

  return term


def errors() -> Term:
  """Minus the share of actions that were answered with an error."""

  def share(one):
    wrong = [e.turn.text.startswith('error: ') for e in one.exchanges]
    return -float(np.mean(wrong)) if wrong else 0.0

  return lambda played: np.array([share(e) for e in played])


def add(
  groups: Sequence[episode.Group],
  terms: Mapping[str, tuple[float, Term]],
  *,
  cap: float,
) -> tuple[list[episode.Group], dict[str, float]]:
  """Adds the terms to rewards, on each trajectory's last sampled token.

  Args:
    groups: the rollouts of each task; rows of a trajectory follow each other.
    terms: by name, weight and function.
    cap: 0 to 0.5, the most that all terms together add or take.

  Returns:
    The groups, and the mean over trajectories of each weighed term, uncut, and
    of what was `added` in the end. No mean without terms or trajectories.

  Raises:
    ValueError: the cap is out of its range, or a term gives no finite number
      for each trajectory.
  """
  if not terms:
    return list(groups), {}
  weights = {name: weight for name, (weight, _) in terms.items()}
  made, parts = [], []
  for group in groups:
    given = _given(group, terms)
    count = len(episode.whole(group.episodes))
    each = [
      composite.capped(
        0.0, {n: x[i] for n, x in given.items()}, weights=weights, cap=cap
      )
      for i in range(count)
    ]
    made.append(_added(group, [one.shaping for one in each]))
    parts += [{**one.parts, 'added': one.shaping} for one in each]
  names = (*terms, 'added') if parts else ()
  return made, {n: float(np.mean([p[n] for p in parts])) for n in names}


def _given(group, terms) -> dict[str, list[float]]:
  """What each term gives each trajectory."""
  played = episode.whole(group.episodes)
  given = {name: term(played) for name, (_, term) in terms.items()}
  for name, values in given.items():
    if np.shape(values) != (len(played),) or not np.all(np.isfinite(values)):
      raise ValueError(
        f'reward.terms.{name}: {values} for {len(played)} rollouts of task'
        f' {group.task.id!r}; it must give each a finite number.'
      )
  return {name: [float(x) for x in values] for name, values in given.items()}


def _added(group, bonuses) -> episode.Group:
  made: list[episode.Episode] = []
  each = episode.trajectories(group.episodes)
  for (*rows, last), bonus in zip(each, bonuses, strict=True):
    rewards = last.rewards.copy()
    rewards[np.flatnonzero(last.mask)[-1:]] += np.float32(bonus)
    made += [*rows, last._replace(rewards=rewards)]
  return group._replace(episodes=made)


def _tokens(played) -> list[int]:
  return [int(np.count_nonzero(e.mask)) for e in played]
