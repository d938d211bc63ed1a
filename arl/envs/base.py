"""The environment contract: five pure functions.

A state is an immutable value, so keeping one is a snapshot and stepping from it
again is a restore. Nothing here knows tokens, models or JAX.
"""

import hashlib
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode, names
from arl.envs import calls

State = Any
TRAIN = 'train'
HELD_OUT = 'held_out'
SPLITS = (TRAIN, HELD_OUT)
_VARIED = 'varied'


class EnvironmentFailure(Exception):
  """The environment broke; the episode has no grade."""

  status = episode.ENVIRONMENT_ERROR


class RewardFailure(Exception):
  """An action could not be graded; that is no reason to grade it 0."""

  status = episode.REWARD_ERROR


class InfrastructureFailure(Exception):
  """The machine failed, not the environment: a sandbox, a process, a disk."""

  status = episode.INFRASTRUCTURE_ERROR


FAILURES = (EnvironmentFailure, RewardFailure, InfrastructureFailure)


class Harness(NamedTuple):
  """An agent that is a program of its own.

  Attributes:
    command: what starts it.
    syntax: how the model spells calls, a name of `call_syntax.SYNTAXES`.
    seconds: a process of it may run.
    episodes: of one process, at most.
    processes: at once, at most.
    grade: (Task, what the agent was told last) -> reward, where the agent
      itself tells none; None where nothing can.
  """

  command: str
  syntax: str
  seconds: float
  episodes: int
  processes: int
  grade: Callable[[episode.Task, str], float] | None


class Env(NamedTuple):
  """An environment.

  Attributes:
    task: (split, index) -> Task. Pure: the same arguments give the same task
      for ever. The splits share no task id.
    reset: Task -> State.
    step: (State, action text) -> (State, Turn). A malformed action is an
      observation that says what was wrong, never an exception. Stepping from a
      state whose episode is over is a ValueError.
    oracle: State -> action text. Following it earns reward 1, or, where chance
      can spoil any policy, as much as the environment says.
    noisy: (State, numpy Generator) -> action text. A fallible demonstrator, for
      a supervised warm start.
    answer: Task -> the action text that answers it right at once, whatever was
      found out before; None where there is none.
    parts: action text -> the kind (`arl.kinds`) of each of its characters;
      None where the environment does not tell them apart.
    scores_steps: whether each Turn says how good its step was (`process`).
    harness: the agent that plays it from outside, for `harness.rollouts`; None
      where actions come from the policy alone.
    anchor: State -> the identity of what the environment shows there, whatever
      led to it: equal for states that look the same, and for no others. None
      where the environment does not tell.
    vary: (Task, numpy Generator) -> another task of the same split that is
      like it, and no harder as a rule; None where there is no such thing.
    tools: what the policy may call, for templates that show it; their `run` is
      not used.
  """

  task: Callable[[str, int], episode.Task]
  reset: Callable[[episode.Task], State]
  step: Callable[[State, str], tuple[State, episode.Turn]]
  oracle: Callable[[State], str]
  noisy: Callable[[State, np.random.Generator], str]
  answer: Callable[[episode.Task], str] | None = None
  parts: Callable[[str], Sequence[int]] | None = None
  scores_steps: bool = False
  harness: Harness | None = None
  anchor: Callable[[State], str] | None = None
  vary: Callable[[episode.Task, np.random.Generator], episode.Task] | None = (
    None
  )
  tools: Sequence[calls.Tool] = ()


def played_in(wrapper: str, env: Mapping[str, Any], max_turns: int) -> Env:
  """The environment whose episodes another tells of, see `inner`.

  Raises:
    ValueError: as `inner`, or an episode without an action.
  """
  made = inner(wrapper, env)
  if max_turns < 1:
    raise ValueError(f'{wrapper}: max_turns is {max_turns}; give 1 or more.')
  return made


def one_answer(
  task: Callable[[str, int], episode.Task],
  right: Callable[[episode.Task], str],
  earns: Callable[[episode.Task, str], float],
) -> Env:
  """An environment whose episodes are one action, which answers a task.

  Args:
    task: (split, index) -> Task.
    right: Task -> the action that earns 1.
    earns: (Task, action text) -> reward.
  """

  def step(state, text):
    return state, episode.Turn('', earns(state, text), True)

  return Env(
    task=task,
    reset=lambda task: task,
    step=step,
    oracle=right,
    noisy=lambda task, rng: right(task),
    answer=right,
  )


def inner(wrapper: str, env: Mapping[str, Any]) -> Env:
  """The environment that another wraps, of its block.

  Args:
    wrapper: names the other in messages.
    env: the block, `name` and keywords.

  Raises:
    ValueError: it has no name, or one that names no environment.
  """
  keywords = dict(env)
  if 'name' not in keywords:
    raise ValueError(
      f'{wrapper}: env needs a name: the function that makes it.'
    )
  return names.resolve(keywords.pop('name'), 'arl.envs')(**keywords)


def play(
  env: Env, task: episode.Task, act: Callable[[State], str], max_turns: int
) -> list[episode.Exchange]:
  """The exchanges of one episode under a policy over states.

  Args:
    env: the environment.
    task: where to start.
    act: maps a state to an action text: `env.oracle`, or a noisy one.
    max_turns: stop after so many actions.
  """
  state, exchanges = env.reset(task), []
  for _ in range(max_turns):
    action = act(state)
    state, turn = env.step(state, action)
    exchanges.append(episode.Exchange(action, turn))
    if turn.done:
      break
  return exchanges


def checked_reset(env: Env, task: episode.Task) -> State:
  """`env.reset`; any error that is no failure becomes EnvironmentFailure."""
  try:
    return env.reset(task)
  except FAILURES:
    raise
  except Exception as error:
    raise EnvironmentFailure(
      f'env.reset raised {type(error).__name__} on task {task.id}: {error}.'
    ) from error


def checked_step(
  env: Env, state: State, text: str
) -> tuple[State, episode.Turn]:
  """`env.step`, with the contract enforced.

  Raises:
    EnvironmentFailure: the step raised, or answered with something other than
      (state, Turn) with a text observation.
    RewardFailure: the step raised it, or the reward, or the score of the step,
      is no finite number.
  """
  try:
    answer = env.step(state, text)
  except FAILURES:
    raise
  except Exception as error:
    raise EnvironmentFailure(
      f'env.step raised {type(error).__name__} on the action {text[:80]!r}: '
      f'{error}.'
    ) from error
  if not isinstance(answer, tuple) or len(answer) != 2:
    raise EnvironmentFailure(
      f'env.step returned {type(answer).__name__}; return (state, Turn).'
    )
  turn = answer[1]
  if not isinstance(turn, episode.Turn):
    raise EnvironmentFailure(
      f'env.step returned {type(turn).__name__} as its turn; return an '
      'episode.Turn.'
    )
  if not isinstance(turn.text, str):
    raise EnvironmentFailure(
      f'env.step returned an observation of type {type(turn.text).__name__}; '
      'return a str.'
    )
  if not _finite(turn.reward):
    raise RewardFailure(
      f'env.step returned the reward {turn.reward!r}; return a finite number, '
      'or raise RewardFailure where there is none.'
    )
  if turn.process is not None and not _finite(turn.process):
    raise RewardFailure(
      f'env.step scored its step {turn.process!r}; return a finite number, or '
      'None where steps are not scored.'
    )
  return answer


def _finite(reward: Any) -> bool:
  number = isinstance(reward, numbers.Real) and not isinstance(reward, bool)
  return number and math.isfinite(reward)


def task_id(family: str, split: str, index: int) -> str:
  """The id of a procedural task, which also seeds it.

  Args:
    family: the environment and every hyperparameter that shapes its tasks.
    split: one of SPLITS.
    index: 0, 1, ...
  """
  if split not in SPLITS:
    raise ValueError(f'{family}: no split {split!r}; splits: {SPLITS}.')
  if index < 0:
    raise ValueError(f'{family}: task index {index}; indices start at 0.')
  return f'{family}/{split}/{index}'


def varied_id(id: str, rng: np.random.Generator) -> tuple[str, str]:
  """The id of a task that is like that of `id`, and its split.

  `id` is of `task_id`, or of this.
  """
  family, split, _ = id.rsplit('/', 2)
  number = int(rng.integers(2**62))
  if split == _VARIED:
    family, split = family.rsplit('/', 1)
  return f'{family}/{split}/{_VARIED}/{number}', split


def split_of(key: str) -> str:
  """The split a question belongs to, by a stable hash: one in 4 is held out."""
  first = hashlib.sha256(key.encode()).digest()[0]
  return HELD_OUT if first < 64 else TRAIN


def draw(split: str, propose: Callable[[], str]) -> str:
  """The first proposal that belongs to the split."""
  while True:
    key = propose()
    if split_of(key) == split:
      return key


def require_probabilities(family: str, **chances: float) -> None:
  """Raises ValueError unless every hyperparameter given is a probability."""
  for name, chance in chances.items():
    if not 0 <= chance <= 1:
      raise ValueError(f'{family}: {name} is {chance}; give a probability.')
