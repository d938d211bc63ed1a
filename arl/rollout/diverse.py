"""Rollouts of a task that differ: plans that are not said twice.

The first turn of an episode is its plan. One that is nearly that of an earlier
rollout of the task is sampled again, so that a group does not spend its samples
on one idea. The rollouts of a task are then not independent: what is kept
depends on those before, and plans that are unlikely are kept more often than
the policy has them.
"""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.rollout import costs, distances, pieces, strategies
from arl.rollout import engine as engine_lib


def deduped(*, least: float = 0.2, tries: int = 2) -> strategies.Strategy:
  """The strategy whose plans differ.

  A plan is compared with those that are kept of the rollouts before it, by the
  edit distance of the texts as a share of the longer one. Of its tries the last
  is played, however near; the others are thrown away (`discarded`).

  Args:
    least: the distance below which two plans are the same.
    tries: the most further samples of a plan.

  Raises:
    ValueError: a number that is out of its range.
  """
  if not 0 <= least <= 1 or tries < 0:
    raise ValueError(
      f'diverse.deduped: least {least}, tries {tries}; set least from 0 to 1,'
      ' tries to 0 or more.'
    )

  def strategy(engine, env, chat, tasks, plan):
    """Multi-turn episodes with `discarded`; as `strategies.multi_turn`."""
    rows = pieces.started(env, chat, tasks, plan)
    sampling = plan.sampling._replace(stop=chat.stop)

    def sample(few, number):
      requests = [pieces.again(one.row, plan.limits, number) for one in few]
      return pieces.ask(engine, requests, sampling)

    going = pieces.going(rows)
    samples = _differing(going, sample, chat, least, tries)
    while going:
      for one, made in zip(going, samples):
        begins = len(one.row.tokens)
        one.row.take(made)
        pieces.advance(one, begins, made.finish, env, chat, plan)
      going = pieces.going(rows)
      samples = sample(going, 0)
    return [one.episode() for one in rows]

  strategy.tells = told  # type: ignore[attr-defined]
  return strategy


def _differing(
  rows: Sequence[pieces.Steered], sample, chat, least: float, tries: int
) -> list[engine_lib.Sample]:
  """The plan of each row, after those that were said before are thrown away.

  Rows are settled in their order; a try is sampled of all that need it at once.
  """
  made = list(sample(rows, 0))
  kept: dict[int, str] = {}  # by row, its plan
  waiting = list(range(len(rows)))
  for number in range(tries + 1):
    again = []
    for i in waiting:
      text = chat.decode(made[i].tokens.tolist())
      others = [kept[j] for j in kept if rows[j].row.path == rows[i].row.path]
      near = any(distances.normalized(text, x) < least for x in others)
      if near and number < tries:
        again.append(i)
      else:
        kept[i] = text
    if not again:
      break
    for i in again:
      rows[i].discard(len(made[i].tokens))
    new = sample([rows[i] for i in again], number + 1)
    for i, one in zip(again, new):
      made[i] = one
    waiting = again
  return made


def told(episodes: Sequence[episode.Episode]) -> dict[str, float]:
  """How the rollouts of a task differ: the means over the tasks.

  `plan_distance` is the mean distance of two first actions, `distance` that of
  two sequences of actions, and `outcomes` how many different totals were
  earned. Beside them what `costs.steered` tells.
  """
  groups = [group.episodes for group in episode.groups(episodes)]
  return {**costs.steered(episodes), **spread(groups)}


def spread(groups: Sequence[Sequence[episode.Episode]]) -> dict[str, float]:
  """The means over groups of `plan_distance`, `distance` and `outcomes`."""

  def acts(group):
    return [[e.action for e in one.exchanges] for one in group]

  plans = [[each[0] for each in acts(group) if each] for group in groups]
  earned = [
    {episode.total_reward(one) for one in group if episode.graded(one)}
    for group in groups
  ]
  return {
    'plan_distance': float(np.mean([distances.pairwise(x) for x in plans])),
    'distance': float(
      np.mean([distances.pairwise(acts(group)) for group in groups])
    ),
    'outcomes': float(np.mean([len(each) for each in earned])),
  }


plans = deduped()
