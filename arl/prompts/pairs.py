"""Pairs out of rollouts: which two episodes of a task are compared."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from arl import episode

_MARGIN = 1e-6  # what rewards that are equal may differ by, summed


def best_against_worst(
  groups: Sequence[episode.Group], *, margin: float = _MARGIN
) -> list[episode.Group]:
  """The best and the worst episode of each task, in this order.

  A task whose best is no more than `margin` above its worst is dropped, and so
  is one where either has no token of the policy. Of several that are as good
  the first counts. What has no grade is not compared. An episode of several
  rows stays whole.
  """
  made = []
  for group in groups:
    ranked = sorted(_whole(group), key=_reward, reverse=True)  # stable
    if len(ranked) < 2:
      continue
    best = ranked[0]
    worst = next(one for one in ranked if _reward(one) == _reward(ranked[-1]))
    if _reward(best) - _reward(worst) > margin:
      made.append(group._replace(episodes=[*best, *worst]))
  return made


def data_against_policy(
  groups: Sequence[episode.Group],
) -> list[episode.Group]:
  """What a demonstrator wrote over what the policy did: the pairs of SPIN.

  arXiv:2401.01335. For `demonstrations.beside`, by who wrote them: 1 goes to
  the demonstration and 0 to the first episode of the policy, whatever the two
  earned. A task whose two are the same tokens is dropped, and so is one where
  either is missing or has no token to learn.

  Raises:
    ValueError: episodes that do not tell which are demonstrations.
  """
  if any('demonstrated' not in e.extras for g in groups for e in g.episodes):
    raise ValueError(
      'pairs.data_against_policy: nothing tells which episodes are'
      ' demonstrations; set config.rollout.strategy to'
      " 'demonstrations.beside'."
    )
  made, by_id = [], {group.task.id: group for group in groups}
  for group in groups:
    shown = by_id.get(group.task.id + episode.DEMONSTRATION)
    if not shown:
      continue
    both = [rows[0] for g in (shown, group) for rows in _whole(g)[:1]]
    if len(both) == 2 and not np.array_equal(both[0].tokens, both[1].tokens):
      pair = [_earning(one, group.task, 1.0 - i) for i, one in enumerate(both)]
      made.append(group._replace(episodes=pair))
  return made


def first_step(groups: Sequence[episode.Group]) -> list[episode.Group]:
  """`best_against_worst`, cut to the first turn in which the two differ.

  The pairs of Step-DPO (arXiv:2406.18629): the turns before it are alike and
  off the mask, what comes after it is cut off, and the whole reward is on its
  last token. A pair is dropped if what the policy answered to had come to
  differ before what it said did.
  """
  made = []
  for group in best_against_worst(groups):
    if len(group.episodes) != 2:
      continue  # a context that was rewritten has no common beginning
    best, worst = group.episodes
    at = _first_difference(best.tokens, worst.tokens)
    turns = [
      one.turn[at] if at < len(one.turn) else -1 for one in (best, worst)
    ]
    said = all(at < len(one.mask) and one.mask[at] for one in (best, worst))
    if said and turns[0] == turns[1]:
      cut = [_cut(one, turns[0]) for one in (best, worst)]
      made.append(group._replace(episodes=cut))
  return made


def siblings(
  groups: Sequence[episode.Group], *, theta: float = 0.2
) -> list[episode.Group]:
  """Every two actions of a search that were tried in one state.

  The pairs of Agent Q (arXiv:2408.07199, 4.2), for the strategies of
  `arl.rollout.search`: two actions whose values differ by more than `theta`, in
  every state of the tree. All before an action is off the mask and all after it
  cut off, the one of higher value comes first, and the values are the rewards:
  what `reward.terms` added is not in them. Each pair is a task of its own.

  A batch has room for half as many pairs as there are episodes; of more, those
  whose values differ most stay. Ours: an action that was never tried has no
  value, where a ranking would give it one.

  Raises:
    ValueError: episodes that are of no search.
  """
  found = [pair for group in groups for pair in _told_apart(group, theta)]
  room = sum(len(group.episodes) // 2 for group in groups)
  widest = sorted(range(len(found)), key=lambda i: -found[i].gap)[:room]
  made = []
  for index in sorted(widest):
    task = found[index].task
    task = task._replace(id=f'{task.id}/pair/{index}')
    pair = [one._replace(task=task) for one in found[index].episodes]
    made.append(episode.Group(task, pair))
  return made


class _Pair(NamedTuple):
  """Two actions in one state, the better one first."""

  task: episode.Task
  gap: float
  episodes: Sequence[episode.Episode]


def _told_apart(group: episode.Group, theta: float) -> Iterator[_Pair]:
  """The actions of a task that a search has told apart."""
  for actions in _tried(group).values():
    ranked = sorted(actions.values(), key=episode.total_reward, reverse=True)
    for pair in itertools.combinations(ranked, 2):
      gap = episode.total_reward(pair[0]) - episode.total_reward(pair[1])
      if gap > theta:
        yield _Pair(group.task, gap, pair)


def _tried(group: episode.Group) -> dict[bytes, dict[bytes, episode.Episode]]:
  """By state and action, as ids: an episode that ends there and earns it."""
  tried: dict[bytes, dict[bytes, episode.Episode]] = {}
  for one in group.episodes:
    if 'action_value' not in one.extras:
      raise ValueError(
        f'pairs.siblings: the episodes of task {one.task.id!r} have no'
        " 'action_value'; set config.rollout.strategy to a search, such as"
        " 'search.by_likelihood'."
      )
    value = one.extras['action_value']
    for turn in np.unique(one.turn[one.mask & np.isfinite(value)]):
      said = np.flatnonzero(one.mask & (one.turn == turn))
      cut = _cut(one, int(turn))
      cut.rewards[-1] = value[said[-1]]
      state = tried.setdefault(one.tokens[: said[0]].tobytes(), {})
      state.setdefault(one.tokens[said].tobytes(), cut)
  return tried


def _whole(group: episode.Group) -> list[list[episode.Episode]]:
  """The rows of each graded episode in which the policy said something."""
  return [
    rows
    for rows in episode.trajectories(group.episodes)
    if episode.graded(rows[0]) and any(np.any(row.mask) for row in rows)
  ]


def _earning(
  one: episode.Episode, task: episode.Task, reward: float
) -> episode.Episode:
  """The episode as one of a task, with a reward on its last token."""
  rewards = np.zeros_like(one.rewards)
  rewards[-1] = reward
  return one._replace(task=task, rewards=rewards)


def _reward(rows: Sequence[episode.Episode]) -> float:
  return sum(episode.total_reward(one) for one in rows)


def _first_difference(one: np.ndarray, other: np.ndarray) -> int:
  n = min(len(one), len(other))
  differ = np.flatnonzero(one[:n] != other[:n])
  return int(differ[0]) if len(differ) else n


def _cut(one: episode.Episode, turn: int) -> episode.Episode:
  """The episode up to the end of a turn, which alone is on the mask."""
  mask = one.mask & (one.turn == turn)
  n = int(np.flatnonzero(mask)[-1]) + 1
  rewards = np.zeros(n, np.float32)
  rewards[-1] = episode.total_reward(one)
  return one._replace(
    tokens=one.tokens[:n],
    mask=mask[:n],
    logp=np.where(mask, one.logp, 0)[:n].astype(np.float32),
    rewards=rewards,
    turn=one.turn[:n],
    extras={name: column[:n] for name, column in one.extras.items()},
  )
