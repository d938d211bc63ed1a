"""Rollouts that are reset into a failure, to try its rest again.

RRPO and SRPO (arXiv:2605.25507). A task is played a few times; where that
fails, one of the failures is gone back into: its state before some turn, and
from there the policy plays on to other ends. States are the environment's
immutable values, so nothing is replayed. Where nothing failed there is no
reset, and the rest of the samples begin anew as the first ones did.

What was before the reset is context in those episodes, off their mask: it was
sampled in the failure and is trained on there alone. `tree` tells the episodes
that began at the prompt, 0, from those that began at the reset, 1: each are
compared among themselves. Rewards are those of whole episodes; what the
beginning earned is the same in all that share it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, mistakes
from arl.rollout import asides, branching, costs, pieces, strategies
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib

_RIGHT = 'located'  # the extra that says whether a reset was where it should be


class Failure(NamedTuple):
  """An episode that failed.

  Attributes:
    row: as it ended.
    before: the row before each of its turns.
    rng: to choose with, of its task alone.
  """

  row: strategies.Live
  before: Sequence[strategies.Live]
  rng: np.random.Generator


class Located(NamedTuple):
  """Where a failure is reset.

  Attributes:
    turn: before which; None for any.
    tokens: that were sampled to find out.
  """

  turn: int | None = None
  tokens: int = 0


# (engine, env, chat, plan, a failure or None of each task) -> where each is.
Locate = Callable[..., list[Located]]


def at_random(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  plan: strategies.Plan,
  failures: Sequence[Failure | None],
) -> list[Located]:
  """Any turn, each as likely (RRPO)."""
  del engine, env, chat, plan
  return [Located()] * len(failures)


def by_policy(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  plan: strategies.Plan,
  failures: Sequence[Failure | None],
) -> list[Located]:
  """The turn that the policy itself calls the first wrong one (SRPO).

  It is shown the problem and what it did; what cannot be read, or has no room,
  is any turn.
  """
  del env
  asked: list[episode.Task | None] = [None] * (len(failures) * plan.samples)
  for place, one in enumerate(failures):
    if one:
      about = mistakes.asked(one.row.task, one.row.exchanges)
      asked[place * plan.samples + one.row.sample] = about
  said = asides.ask(engine, chat, plan, asked)
  return [
    _read(one, said[place * plan.samples + one.row.sample])
    if one
    else Located()
    for place, one in enumerate(failures)
  ]


def _read(one: Failure, said: Sequence[asides.Said]) -> Located:
  (answer,) = said
  return Located(mistakes.read(answer.text, len(one.before)), answer.tokens)


def by_oracle(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  plan: strategies.Plan,
  failures: Sequence[Failure | None],
) -> list[Located]:
  """The first turn that is not what the environment's oracle would do.

  A bound for `by_policy`, for tests and studies.
  """
  del engine, chat, plan
  return [Located(_departure(env, one) if one else None) for one in failures]


def _departure(env: base.Env, one: Failure) -> int | None:
  states = [row.state for row in one.before]
  return mistakes.first(env, states, one.row.exchanges)


def into_failure(count: int, locate: Locate) -> strategies.Strategy:
  """The strategy that resets into one failure of each task.

  It tells `located`, the share of resets before the first turn that departs
  from the environment's oracle, of those where one does: for `at_random` that
  is what chance has.

  Args:
    count: episodes after the reset; the paper's best are 4 after 4.
    locate: which turn a failure is reset before.
  """

  def strategy(engine, env, chat, tasks, plan):
    """Multi-turn episodes with `tree`; as `strategies.multi_turn`.

    Raises:
      ValueError: no more samples than are kept for the reset.
    """
    first = plan.samples - count
    if count < 1 or first < 1:
      raise ValueError(
        f'resets.into_failure: {count} of {plan.samples} samples come after a'
        ' reset; set prompts.samples to more than that, best twice as many.'
      )
    made = [
      branching.started(env, chat, task, place, first, plan)
      for place, task in enumerate(tasks, plan.first)
    ]
    branching.play(made, engine, env, chat, plan)
    failures = [next(iter(failed(one, plan, 1)), None) for one in made]
    located = locate(engine, env, chat, plan, failures)
    turns = [_turn(*each) for each in zip(failures, located)]
    for one, task, failure, turn in zip(made, tasks, failures, turns):
      if failure is None:
        branching.grow(one, plan.samples, env, chat, task, plan)
      else:
        for _ in range(count):
          _reset(one, failure.before[turn])
    branching.play(made, engine, env, chat, plan)
    return [
      each
      for one, failure, found, turn in zip(made, failures, located, turns)
      for each in _episodes(one, first, failure, found, turn, env)
    ]

  strategy.gives = frozenset({'tree'})  # type: ignore[attr-defined]
  strategy.tells = told  # type: ignore[attr-defined]
  return strategy


def told(episodes: Sequence[episode.Episode]) -> dict[str, float]:
  """Of such rollouts: `tokens`, those that located included, and `located`.

  The latter is left out where no reset is known to be right or wrong.
  """
  right = [
    float(one.extras[_RIGHT][0]) for one in episodes if _RIGHT in one.extras
  ]
  located = {'located': float(np.mean(right))} if right else {}
  return {'tokens': costs.sampled(episodes), **located}


def failed(
  one: branching.Grown, plan: strategies.Plan, count: int
) -> list[Failure]:
  """Up to so many of the episodes of a task that failed, drawn."""
  rng = np.random.default_rng([*plan.path, one.place])
  found = [
    leaf
    for leaf in one.leaves
    if leaf.row.status in episode.GRADED
    and sum(leaf.row.rewards) < episode.SOLVED
  ]
  drawn = rng.permutation(len(found))[:count]
  return [Failure(found[i].row, found[i].before, rng) for i in drawn]


def _turn(one: Failure | None, located: Located) -> int:
  if one is None:
    return 0
  if located.turn is None:
    return int(one.rng.integers(len(one.before)))
  return located.turn


def _reset(one: branching.Grown, row: strategies.Live) -> None:
  """A further row of a task, that goes on from another."""
  new = row.copy(row.path)
  new.sample = len(one.leaves)
  one.leaves.append(branching.Leaf(new, 1, []))


def _episodes(
  one: branching.Grown,
  first: int,
  failure: Failure | None,
  located: Located,
  turn: int,
  env: base.Env,
) -> list[episode.Episode]:
  """The episodes of a task, those after a reset with what only they sampled."""
  made = [leaf.row.episode() for leaf in one.leaves]
  if failure is None:
    return [_with(each, tree=0) for each in made]
  at = failure.row.sample
  asked = np.zeros(len(made[at].tokens), np.int32)
  asked[-1] = located.tokens
  made[at] = made[at]._replace(
    extras={**made[at].extras, pieces.DISCARDED: asked}
  )
  extras: dict[str, Any] = {'tree': 1}
  right = _departure(env, failure)
  if right is not None:
    extras[_RIGHT] = turn == right
  return [
    *(_with(each, tree=0) for each in made[:first]),
    *(_with(from_turn(each, turn), **extras) for each in made[first:]),
  ]


def from_turn(one: episode.Episode, turn: int) -> episode.Episode:
  """The episode with what was sampled before a turn as its context."""
  mask = one.mask & (one.turn >= turn)
  told = dict(one.extras)
  told['rollout_version'] = np.where(mask, told['rollout_version'], -1)
  for name in ('rollout_entropy', 'process_rewards'):
    if name in told:
      told[name] = np.where(mask, told[name], np.float32(0))
  logp = np.where(mask, one.logp, np.float32(0))
  return one._replace(mask=mask, logp=logp, extras=told)


def _with(one: episode.Episode, **numbers) -> episode.Episode:
  """The episode with columns of one number each."""
  n = len(one.tokens)
  told = {name: np.full(n, x, np.int32) for name, x in numbers.items()}
  return one._replace(extras={**one.extras, **told})


rrpo = into_failure(4, at_random)
srpo = into_failure(4, by_policy)
srpo_oracle = into_failure(4, by_oracle)
