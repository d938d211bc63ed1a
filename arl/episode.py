"""What the host side passes around: tasks, turns, episodes and groups.

Plain Python and numpy, no JAX. An episode is one conversation: the prompt, what
the policy sampled and what the environment answered, as one append-only row of
token ids. Arrays of an episode are aligned with its tokens, shape [n]. Where a
context was rewritten on the way, a trajectory has several such rows: they share
the task and the sample, and count as one.
"""

import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

# How an episode may end. The first four are results and are graded; in the
# next three something around the policy failed, so the episode has no grade:
# the environment, what grades it, or the machine that either runs on. The last
# has no grade either and is no failure: a strategy gave its group up midway.
FINISHED = 'finished'
MAX_TURNS = 'max_turns'
MAX_TOKENS = 'max_tokens'
MAX_SECONDS = 'max_seconds'
ENVIRONMENT_ERROR = 'environment_error'
REWARD_ERROR = 'reward_error'
INFRASTRUCTURE_ERROR = 'infrastructure_error'
DROPPED = 'dropped'
TRUNCATED = frozenset({MAX_TURNS, MAX_TOKENS, MAX_SECONDS})
GRADED = TRUNCATED | {FINISHED}
FAILED = frozenset({ENVIRONMENT_ERROR, REWARD_ERROR, INFRASTRUCTURE_ERROR})
STATUSES = GRADED | FAILED | {DROPPED}

# The extra that keeps what the environment paid, where a strategy has given an
# episode other rewards.
PAID = 'environment_rewards'

# Ends the id of a demonstration's task, where it stands beside what the policy
# did in the same task.
DEMONSTRATION = '/demonstration'

# What a success has earned at least; rewards are float32 and may come in parts.
SOLVED = 1 - 1e-6


class Task(NamedTuple):
  """One problem: what the policy is told, and what grades it.

  Attributes:
    id: stable identity; two tasks with one id are the same problem.
    prompt: the first user message.
    data: what the environment needs to run and grade it; JSON-serializable.
    system: the system message, or '' for none.
    example: another conversation, shown before the prompt as if it had been
      held: its prompt, then actions and observations in turn, an action last.
  """

  id: str
  prompt: str
  data: Mapping[str, Any]
  system: str = ''
  example: Sequence[str] = ()


class Turn(NamedTuple):
  """An environment's answer to one action.

  Attributes:
    text: the observation shown to the policy; ignored once `done`.
    reward: earned by this action.
    done: whether the episode is over.
    process: how good this step was, whatever comes of it; None where the
      environment does not score steps.
    valid: whether the action was an answer, or a call of a tool that there is
      with arguments that it takes; None where the environment does not tell.
  """

  text: str
  reward: float = 0.0
  done: bool = False
  process: float | None = None
  valid: bool | None = None


class Exchange(NamedTuple):
  """One action as text and the answer to it, kept for people to read.

  Attributes:
    action: as text.
    turn: the answer.
    anchor: the identity of what the environment showed before the action,
      whatever was said to it before; None where it does not tell.
  """

  action: str
  turn: Turn
  anchor: str | None = None


class Episode(NamedTuple):
  """One finished conversation, token-exact.

  Attributes:
    task: the problem.
    sample: index of this rollout among those of its task.
    tokens: int32 [n], prompt, sampled and observed ids in order.
    mask: bool [n], true where the policy chose the token.
    logp: float32 [n], log-probability the engine reported for each sampled
      token, under the distribution it was sampled from; 0 off the mask.
    rewards: float32 [n], on the token that earned it (a turn's last one).
    turn: int32 [n], index of the turn a token belongs to; an observation
      belongs to the turn that caused it, the prompt to turn 0.
    status: one of STATUSES.
    exchanges: the same conversation as text.
    error: what went wrong, for a status that is not graded.
    extras: further columns by name, [n, ...], that some methods read.
    row: which row of its trajectory this is: 0 for the first, or the only one.
      The rows of a trajectory follow each other and have one status.
  """

  task: Task
  sample: int
  tokens: np.ndarray
  mask: np.ndarray
  logp: np.ndarray
  rewards: np.ndarray
  turn: np.ndarray
  status: str
  exchanges: Sequence[Exchange] = ()
  error: str = ''
  extras: Mapping[str, np.ndarray] = types.MappingProxyType({})
  row: int = 0


class Group(NamedTuple):
  """All rollouts of one task in one rollout batch."""

  task: Task
  episodes: Sequence[Episode]


def task_to_json(task: Task) -> dict[str, Any]:
  """A task as JSON; its data is JSON already."""
  return {
    **task._asdict(),
    'data': dict(task.data),
    'example': list(task.example),
  }


def task_from_json(made: Mapping[str, Any]) -> Task:
  """The task that `task_to_json` wrote."""
  return Task(**{**made, 'example': tuple(made['example'])})


def total_reward(episode: Episode) -> float:
  """The sum of an episode's rewards: its return without discount."""
  return float(np.sum(episode.rewards, dtype=np.float64))


def trajectories(episodes: Sequence[Episode]) -> list[list[Episode]]:
  """The rows of each trajectory, in their order."""
  made: list[list[Episode]] = []
  for episode in episodes:
    if episode.row:
      made[-1].append(episode)
    else:
      made.append([episode])
  return made


def whole(episodes: Sequence[Episode]) -> list[Episode]:
  """One episode a trajectory, its rows joined: to count with, not to pack."""
  return [_joined(rows) for rows in trajectories(episodes)]


def _joined(rows: Sequence[Episode]) -> Episode:
  first, *others = rows
  if not others:
    return first
  columns: dict[str, Any] = {
    name: np.concatenate([getattr(row, name) for row in rows])
    for name in ('tokens', 'mask', 'logp', 'rewards', 'turn')
  }
  return first._replace(**columns, status=rows[-1].status, extras={})


def graded(episode: Episode) -> bool:
  """Whether the episode has a grade, or something around it failed."""
  return episode.status in GRADED


def groups(episodes: Sequence[Episode]) -> list[Group]:
  """Episodes by task, in order of first appearance."""
  by_id: dict[str, list[Episode]] = {}
  for episode in episodes:
    by_id.setdefault(episode.task.id, []).append(episode)
  return [Group(members[0].task, members) for members in by_id.values()]
