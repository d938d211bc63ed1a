"""A chain of forks, one of them hard, walked by a policy that is a table.

The planted error of the study `retrying`: at each of `LENGTH` forks one of six
ways is right. Nothing tells which was taken; whether all were is known at the
end. A task has one hard fork, which is seen, where the policy starts out mostly
wrong; elsewhere it is mostly right. What is seen is a token and so is an
action, as in `tabular`, so that all of arl trains the table.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from arl import episode
from arl.envs import base
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import strategies
from experiments.studies import tabular

LENGTH = 10
EASY, HARD = 0.97, 0.05  # how often the policy is right at first
LIMITS = strategies.Limits(LENGTH, 2, 2 * LENGTH + 2, 2 * LENGTH)
SHOWN = [f'{i}{mark}' for i in range(LENGTH) for mark in ('', '?')]
WAYS = np.random.default_rng(7).integers(len(tabular.ACTIONS), size=len(SHOWN))
_NUMBERS, _QUESTIONS = 10_000, 20_000  # ids of what is asked and answered


class State(NamedTuple):
  """Where a walk stands; that a way was wrong is not seen."""

  task: episode.Task
  turns: int = 0
  lost: bool = False


def right(shown: str) -> str:
  """The right way at a fork."""
  return tabular.ACTIONS[WAYS[SHOWN.index(shown)]]


def _seen(now: State) -> str:
  return f'{now.turns}{"?" * (now.turns == now.task.data["hard"])}'


def make() -> base.Env:
  return base.Env(
    task=_task,
    reset=State,
    step=_step,
    oracle=lambda now: right(_seen(now)),
    noisy=lambda now, rng: tabular.ACTIONS[rng.integers(len(tabular.ACTIONS))],
    anchor=_seen,
  )


def _task(split: str, index: int) -> episode.Task:
  hard = 1 + index % (LENGTH - 1)
  id = base.task_id('forks', split, index)
  return episode.Task(id, '0', {'hard': hard})


def _step(now: State, text: str) -> tuple[State, episode.Turn]:
  lost = now.lost or text != right(_seen(now))
  after = State(now.task, now.turns + 1, lost)
  done = after.turns == LENGTH
  seen = _seen(after) if not done else ''
  return after, episode.Turn(seen, float(done and not lost), done)


def start() -> dict[str, Any]:
  """The parameters of the policy at first."""
  actions = len(tabular.ACTIONS)
  odds = np.zeros((len(SHOWN), actions))
  for row, shown in enumerate(SHOWN):
    skill = HARD if shown.endswith('?') else EASY
    odds[row] = (1 - skill) / (actions - 1)
    odds[row, WAYS[row]] = skill
  return {
    'table': jnp.asarray(np.log(odds), jnp.float32),
    'value': jnp.zeros(len(SHOWN), jnp.float32),
  }


class Walker(tabular.Engine):
  """A table that can also be asked which of its turns was the first wrong one.

  Its answers are simulated: it names the right turn with the probability
  `insight`, otherwise any turn of the episode. A question is a token; an answer
  are two, which are counted.

  Attributes:
    chat: of the table, with questions and answers.
  """

  def __init__(self, params: dict[str, Any], seed: int, insight: float):
    super().__init__(params, seed)
    self.insight, self._asked = insight, []
    plain = tabular.chat(SHOWN)

    def opening(task):
      if not task.id.startswith('mistake/'):
        return plain.opening(task)
      self._asked.append(task.prompt)
      return [_QUESTIONS + len(self._asked) - 1]

    def decode(ids):
      number = ids[0] - _NUMBERS
      return plain.decode(ids) if number < 0 else str(number)

    self.chat: chat_lib.Chat = plain._replace(opening=opening, decode=decode)

  def generate(
    self,
    requests: Sequence[engine_lib.Request],
    sampling: engine_lib.Sampling,
  ) -> list[engine_lib.Sample]:
    if requests and requests[0].tokens[-1] >= _QUESTIONS:
      return [self._answer(request) for request in requests]
    return super().generate(requests, sampling)

  def _answer(self, request: engine_lib.Request) -> engine_lib.Sample:
    self.sampled += 2
    rng = np.random.default_rng((self.seed, *request.path))
    lines = self._asked[request.tokens[-1] - _QUESTIONS].splitlines()
    seen = [line[2:] for line in lines if line[0] in '?>']
    said = [line.split()[-1] for line in lines if line[0] == '-']
    wrong = [i for i, way in enumerate(said) if way != right(seen[i])]
    knows = wrong and rng.random() < self.insight
    number = 1 + (wrong[0] if knows else int(rng.integers(len(said))))
    return engine_lib.Sample(
      np.array([_NUMBERS + number, self.chat.stop[0]], np.int32),
      np.zeros(2, np.float32),
      engine_lib.STOP,
      np.full(2, self.version, np.int32),
    )
