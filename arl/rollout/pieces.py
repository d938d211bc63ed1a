"""Actions in pieces: what is sampled again, and what is forced in between.

Strategies that steer a policy while it speaks ask for an action in parts, or
more than once, and put tokens of their own into it. A row stays token-exact:
what was sampled keeps its log-prob under the context that it was sampled in,
and what was forced is off the mask, as no policy chose it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from arl import episode
from arl.rollout import engine as engine_lib
from arl.rollout import resume, strategies

FORCED, DISCARDED = 'forced', 'discarded'


class Steered:
  """A row, and what was done to its actions.

  Attributes:
    row: the episode in progress.
    forced: places of tokens that no policy chose.
    discarded: by turn, how many tokens were sampled for it and thrown away.
  """

  def __init__(self, row: strategies.Live):
    self.row = row
    self.forced: list[int] = []
    self.discarded: dict[int, int] = {}

  @property
  def turn(self) -> int:
    return len(self.row.exchanges)

  def discard(self, count: int) -> None:
    self.discarded[self.turn] = self.discarded.get(self.turn, 0) + count

  def force(self, ids: Sequence[int]) -> None:
    """Appends tokens of the action that is being made."""
    row, n = self.row, len(ids)
    self.forced += range(len(row.tokens), len(row.tokens) + n)
    row.observe(ids)
    row.turn[len(row.turn) - n :] = [self.turn] * n

  def episode(self) -> episode.Episode:
    """The episode with two columns more.

    `forced`, bool [n]: true on tokens of an action that no policy chose.
    `discarded`, int32 [n]: on the last token of a turn, how many were sampled
    for it and thrown away.
    """
    made = self.row.episode()
    forced = np.zeros(len(made.tokens), bool)
    forced[self.forced] = True
    discarded = np.zeros(len(made.tokens), np.int32)
    for turn, count in self.discarded.items():
      places = np.flatnonzero(made.mask & (made.turn == turn))
      if places.size:
        discarded[places[-1]] = count
    columns = {FORCED: forced, DISCARDED: discarded}
    return made._replace(extras={**made.extras, **columns})


def started(env, chat, tasks, plan: strategies.Plan) -> list[Steered]:
  """The rows of all tasks, those of one together; as `strategies.start`."""
  made = []
  for place, task in enumerate(tasks, plan.first):
    path = *plan.path, place
    for sample in range(plan.samples):
      row = strategies.start(env, chat, task, plan.limits, sample, path)
      made.append(Steered(row))
  return made


def going(rows: Sequence[Steered]) -> list[Steered]:
  return [one for one in rows if not one.row.status]


def again(
  row: strategies.Live, limits: strategies.Limits, number: int
) -> engine_lib.Request:
  """What a row asks for in a turn for the first time (0), or once more.

  The randomness of a further try is that of no token of the first: those fold
  in their place in the sample, which is below the context.
  """
  first = strategies.request(row, limits, len(row.exchanges))
  if not number:
    return first
  return first._replace(path=(*first.path, limits.context + number))


def ask(
  engine: engine_lib.Engine,
  requests: Sequence[engine_lib.Request],
  sampling: engine_lib.Sampling,
) -> list[engine_lib.Sample]:
  """Samples of requests, of which there may be none."""
  if not requests:
    return []
  return resume.generate(engine.generate, requests, sampling)


def advance(one: Steered, begins: int, finish: str, env: Any, chat, plan):
  """Plays the action that a row ends with.

  Args:
    one: the row.
    begins: the place of the action's first token.
    finish: STOP or LENGTH, as in a Sample.
    env: answers the action.
    chat: how ids become text, and text ids.
    plan: of the limits.
  """
  ids = one.row.tokens[begins:]
  strategies.advance(one.row, ids, finish, env, chat, plan.limits)
