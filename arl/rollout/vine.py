"""Rollouts that branch off rollouts: what the states of a policy are worth.

From where the turns of an episode begin, or from where they end, the same
policy plays on a few times; a state is kept as the environment's immutable
value and the ids so far, so nothing is replayed. The mean of what the rest
earns is a value of the state without a critic (VinePPO, arXiv:2410.01679), and
the share that succeeds a label of the turn before it (Math-Shepherd,
arXiv:2312.08935). All branches of a batch advance one turn at a time, and a
state that several episodes share, as their first, is played on from once.

A branch that a limit cuts off has earned what it has. One that fails does not
count; where all of a state fail the episode fails with them.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from arl import episode
from arl.rollout import costs, pieces, strategies

# The branches of a row by the turn that they begin with.
_Branches = Mapping[int, Sequence[strategies.Live]]


def values(count: int) -> strategies.Strategy:
  """The strategy that gives `turn_value`: mean returns of `count` branches.

  The column holds, on the tokens of a turn, what branches from its beginning
  earn from there on.
  """
  return _branching(count, 0, 'turn_value', _valued)


def labels(
  count: int, judge: Callable[[np.ndarray], float]
) -> strategies.Strategy:
  """The strategy that labels each turn by `count` completions of it.

  The labels are `process_rewards`, in place of those of the environment.

  Args:
    count: branches from the state after a turn; after the last turn there is
      nothing to play, and its label is the outcome.
    judge: which of the branches succeeded, bool [n] -> the label.
  """
  label = functools.partial(_labelled, judge=judge)
  return _branching(count, 1, 'process_rewards', label)


def _branching(
  count: int, first: int, column: str, told: Callable[..., episode.Episode]
) -> strategies.Strategy:
  """The strategy that gives a column, told of a row and its branches.

  Args:
    count: branches of a state.
    first: the turn that the first of them begin with.
    column: that it gives.
    told: (row, its branches) -> the episode with the column.
  """

  def strategy(engine, env, chat, tasks, plan):
    """Multi-turn episodes with the column; as `strategies.multi_turn`."""
    rows, starts = _roll_out(engine, env, chat, tasks, plan)
    branches = _branch(starts, count, first)
    begun = {id(row): sum(row.mask) for row in _each(branches)}
    play(_each(branches), engine, env, chat, plan)
    return [
      _charged(told(row, here), here, begun)
      for row, here in zip(rows, branches)
    ]

  strategy.gives = frozenset({column})  # type: ignore[attr-defined]
  strategy.tells = costs.played_on  # type: ignore[attr-defined]
  return strategy


def hard(succeeded: np.ndarray) -> float:
  """1 if any of the branches succeeded, otherwise 0."""
  return float(np.any(succeeded))


def soft(succeeded: np.ndarray) -> float:
  """The share of the branches that succeeded."""
  return float(np.mean(succeeded))


def _roll_out(engine, env, chat, tasks, plan):
  """Finished rows, and of each the rows as they were before each turn."""
  rows = [
    strategies.start(env, chat, task, plan.limits, sample, (*plan.path, place))
    for place, task in enumerate(tasks, plan.first)
    for sample in range(plan.samples)
  ]
  starts: list[list[strategies.Live]] = [[] for _ in rows]

  def keep():
    for row, kept in zip(rows, starts):
      if not row.status:
        kept.append(row.copy(row.path))

  play(rows, engine, env, chat, plan, keep)
  for row, kept in zip(rows, starts):
    if row.status not in episode.GRADED:
      kept.clear()
  return rows, starts


def play(rows, engine, env, chat, plan, before=lambda: None) -> None:
  """Lets rows advance, one turn at a time, until all have ended.

  Args:
    rows: Live episodes, which may be in different turns.
    engine: the sampler.
    env: answers the actions.
    chat: how text becomes ids.
    plan: of the sampling and the limits.
    before: called before each turn.
  """
  while going := [row for row in rows if not row.status]:
    before()
    strategies.take_turn(going, engine, env, chat, plan)


def _branch(starts, count: int, first: int) -> list[_Branches]:
  """Rows to play on, of each row those from each of its turns on.

  Rows that were told and have said the same share their branches.

  Args:
    starts: as of `_roll_out`.
    count: branches of a state.
    first: the turn that the first of them begin with.
  """
  shared: dict[tuple[Any, ...], list[strategies.Live]] = {}

  def of(row):
    key = *row.path, *row.tokens
    if key not in shared:
      path = *row.path, row.sample, len(row.exchanges)
      shared[key] = [row.copy((*path, i)) for i in range(count)]
    return shared[key]

  return [
    {turn: of(row) for turn, row in enumerate(kept) if turn >= first}
    for kept in starts
  ]


def _each(branches: Sequence[_Branches]) -> list[strategies.Live]:
  """All rows to play, each once."""
  found = [row for here in branches for rows in here.values() for row in rows]
  return list({id(row): row for row in found}.values())


def _charged(
  one: episode.Episode, branches: _Branches, begun: dict[int, int]
) -> episode.Episode:
  """The episode with the tokens that its branches sampled, on its last one.

  Args:
    one: the episode.
    branches: of it.
    begun: tokens sampled before, by the branch's id; those counted are taken
      out, so that what episodes share is charged to the first of them.
  """
  rows = [row for each in branches.values() for row in each if id(row) in begun]
  spent = np.zeros(len(one.tokens), np.int32)
  spent[-1] = sum(sum(row.mask) - begun.pop(id(row)) for row in rows)
  return one._replace(extras={**one.extras, pieces.DISCARDED: spent})


def _ended(branches: _Branches) -> dict[int, list[episode.Episode]]:
  """The branches that have a grade, by turn."""
  made = {
    turn: [row.episode() for row in rows] for turn, rows in branches.items()
  }
  return {
    turn: [one for one in each if episode.graded(one)]
    for turn, each in made.items()
  }


def _without(row, ended) -> episode.Episode | None:
  """The episode without a grade, if all branches of a state of it failed."""
  failed = [turn for turn, each in ended.items() if not each]
  if not failed:
    return None
  error = f'all branches from its turn {failed[0]} failed'
  return row.episode()._replace(status=episode.ENVIRONMENT_ERROR, error=error)


def _valued(row: strategies.Live, branches: _Branches) -> episode.Episode:
  made, ended = row.episode(), _ended(branches)
  failed = _without(row, ended)
  if failed or not episode.graded(made):
    return failed or made

  told = np.zeros(len(made.tokens), np.float32)
  for turn, each in ended.items():
    told[made.turn == turn] = np.mean([_after(one, turn) for one in each])
  return made._replace(extras={**made.extras, 'turn_value': told})


def _after(one: episode.Episode, turn: int) -> float:
  """What an episode earned from a turn on."""
  return float(np.sum(one.rewards[one.turn >= turn], dtype=np.float64))


def _labelled(
  row: strategies.Live, branches: _Branches, judge
) -> episode.Episode:
  made, ended = row.episode(), _ended(branches)
  failed = _without(row, ended)
  if failed or not episode.graded(made):
    return failed or made

  def succeeded(each):
    return np.array(
      [episode.total_reward(one) >= episode.SOLVED for one in each]
    )

  told = np.zeros(len(made.tokens), np.float32)
  for turn in set(made.turn[made.mask].tolist()):
    at = np.flatnonzero(made.mask & (made.turn == turn))[-1]
    told[at] = judge(succeeded(ended.get(turn + 1, [made])))
  return made._replace(extras={**made.extras, 'process_rewards': told})


three, nine = values(3), values(9)
hard_labels, soft_labels = labels(8, hard), labels(8, soft)
