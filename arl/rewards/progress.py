"""Long tasks in parts: rewards on the way, and goals that were reached."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode


def in_order(verified: Sequence[bool]) -> int:
  """How many parts are done, up to the first that is not."""
  done = 0
  for each in verified:
    if not each:
      break
    done += 1
  return done


def potential(
  done: Sequence[int], parts: int, *, gamma: float = 1.0
) -> np.ndarray:
  """gamma * Phi(next) - Phi, where Phi is the share of parts that are done.

  Potential-based shaping (Ng et al., 1999): it changes no optimal policy, if
  gamma is the discount and the potential of the end is 0, as it is here.

  Args:
    done: [n], how many parts are done before each of n steps.
    parts: of the task.
    gamma: the discount.

  Returns:
    [n], the reward of each step; the last one ends the episode.
  """
  phi = np.asarray([*done, 0], float) / parts
  return gamma * phi[1:] - phi[:-1]


def milestones(
  done: Sequence[int], parts: int, *, bonus: float = 0.1
) -> np.ndarray:
  """bonus / parts for each part, once, on the step that completes it.

  Args:
    done: [n], how many parts are done, in order, after each of n steps.
    parts: of the task.
    bonus: for all of them.
  """
  best = np.maximum.accumulate(np.asarray([0, *done], float))
  return np.diff(best) * bonus / parts


def dense(
  verified: Sequence[bool], outcome: float, *, share: float = 0.3
) -> float:
  """share * parts done in order + (1 - share) * outcome.

  How surveys tell of training a decomposer of questions; its publication (A2D,
  arXiv:2602.00759) rewards the outcome alone.
  """
  reached = in_order(verified) / len(verified) if verified else 0.0
  return share * reached + (1 - share) * outcome


def guided_pass(rate: float, tries: int) -> float:
  """1 - (1 - rate)^tries: whether one of several guided answers is right.

  The quality part of A2D's reward for a decomposer, arXiv:2602.00759, where the
  rate is the reasoner's with the sub-questions given. Known from digests; how
  it is joined with the reward for form is not.
  """
  return -np.expm1(tries * np.log1p(-rate)) if rate < 1 else 1.0


class Hindsight(NamedTuple):
  """A step told again with a goal that was reached.

  Attributes:
    step: its index.
    goal: the other goal.
    reward: of the step, with that goal.
  """

  step: int
  goal: Any
  reward: float


def final_goal(
  achieved: Sequence[Any], reward: Callable[[Any, Any], float]
) -> list[Hindsight]:
  """Every step with the goal that the last one reached.

  HER's 'final' (arXiv:1707.01495).

  Args:
    achieved: [n], what each step reached; None for nothing.
    reward: (achieved, goal) -> of that step.

  Returns:
    None of them if nothing was reached in the end.
  """
  if not achieved or achieved[-1] is None:
    return []
  goal = achieved[-1]
  return [
    Hindsight(step, goal, reward(each, goal))
    for step, each in enumerate(achieved)
  ]


def future_goals(
  achieved: Sequence[Any],
  reward: Callable[[Any, Any], float],
  rng: np.random.Generator,
  *,
  goals: int = 4,
) -> list[Hindsight]:
  """Every step with goals that were reached from there on, drawn at random.

  HER's 'future' (arXiv:1707.01495): `goals` draws a step, with replacement.
  Arguments as of `final_goal`.
  """
  made = []
  for step, each in enumerate(achieved):
    later = [goal for goal in achieved[step:] if goal is not None]
    for _ in range(goals if later else 0):
      goal = later[rng.integers(len(later))]
      made.append(Hindsight(step, goal, reward(each, goal)))
  return made


def retold(
  made: episode.Episode,
  task: episode.Task,
  tokens: np.ndarray,
  prompt: int,
  reward: float,
) -> episode.Episode:
  """An episode as a success at a task that asks for what it did.

  Only if a verifier confirms that it did. Log-probabilities of the old prompt
  are not those of the new one: they are nan, so an episode retold is for
  cloning, or for scoring anew.

  Args:
    made: the episode.
    task: the other task.
    tokens: the prompt of that task, int32 [m].
    prompt: how many of the episode's tokens are its prompt.
    reward: of the last token that the policy chose.
  """
  if made.mask[:prompt].any():
    raise ValueError(
      f'retold: the first {prompt} tokens are not only prompt: the policy chose'
      ' some of them.'
    )
  front = np.zeros(len(tokens), bool)
  mask = np.concatenate([front, made.mask[prompt:]])
  rewards = np.zeros(mask.shape, np.float32)
  if mask.any():
    rewards[np.flatnonzero(mask)[-1]] = reward
  return made._replace(
    task=task,
    tokens=np.concatenate([tokens, made.tokens[prompt:]]).astype(np.int32),
    mask=mask,
    logp=np.where(mask, np.nan, 0).astype(np.float32),
    rewards=rewards,
    turn=np.concatenate([front.astype(np.int32), made.turn[prompt:]]),
    extras={},
  )
