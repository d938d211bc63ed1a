"""Rollouts that reflect on a failure and try again: R3L's (arXiv:2601.03715).

A task is played a few times. About some of its failures the policy is asked
what went wrong and from which turn to try again, and with what it says before
the prompt it plays on from the state before that turn. States are the
environment's immutable values, so nothing is replayed. The policy is to do
without: a retry is an episode of the task as it was told first, whose log-probs
are those it was sampled with, under the reflection. So it is off-policy, and
the trainer's own log-probs are of the row without.

`pivotal` is true from the turn that was tried again on, both in the failure and
in the retry, which have in common what lies before; and in all of the others.
A retry that earned more than its failure comes once more as it was sampled,
behind the reflection, together with the reflection itself: two rows of one
trajectory in a group of its own, whose sampled tokens are `demonstrated`.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from arl import episode
from arl.envs import hinted, mistakes
from arl.rollout import asides, branching, costs, pieces, resets, strategies
from arl.rollout import chat as chat_lib

_BETTER = 'better'  # the extra of a retry: whether it earned more
_COLUMNS = (
  'tokens', 'mask', 'logp', 'rewards', 'turn', 'entropy', 'process', 'versions',
)  # fmt: skip


class Retry(NamedTuple):
  """A failure that is tried again.

  Attributes:
    failure: it.
    said: the reflection.
    pivot: the turn that is tried again.
    asked: how many tokens the reflection on it took.
    row: what is played on.
    opened: how many ids its opening has.
  """

  failure: resets.Failure
  said: asides.Said
  pivot: int
  asked: int
  row: strategies.Live
  opened: int


# The reflections on the failures of each task -> which each retry is told.
Mix = Callable[[list[list[asides.Said]]], list[list[asides.Said]]]


def own(said: list[list[asides.Said]]) -> list[list[asides.Said]]:
  """Each its own."""
  return said


def of_another(said: list[list[asides.Said]]) -> list[list[asides.Said]]:
  """Each one on another task: for comparison alone.

  The next task that has any. Where only one task has, they stay.
  """
  having = [i for i, each in enumerate(said) if each]
  after = dict(zip(having, [*having[1:], *having[:1]]))
  return [
    list(itertools.islice(itertools.cycle(said[after[i]]), len(each)))
    if each
    else []
    for i, each in enumerate(said)
  ]


def reflected(count: int, mix: Mix = own) -> strategies.Strategy:
  """The strategy that tries up to `count` failures of each task again.

  Where there are fewer, and where a reflection cannot be shown or leaves no
  room, further episodes begin at the prompt instead. A reflection that names no
  turn is on the last. Of the samples three a retry are kept, since it may bring
  two further rows; the others begin at the prompt.

  Args:
    count: retries of a task.
    mix: which reflection each is told.
  """

  def strategy(engine, env, chat, tasks, plan):
    """Multi-turn episodes with both columns; as `strategies.multi_turn`.

    Raises:
      ValueError: too few samples.
    """
    first = plan.samples - 3 * count
    if count < 1 or first < 1:
      raise ValueError(
        f'retries.reflected: {count} retries of a task are kept {3 * count}'
        f' samples, of {plan.samples}; set prompts.samples to more.'
      )
    made = [
      branching.started(env, chat, task, place, first, plan)
      for place, task in enumerate(tasks, plan.first)
    ]
    branching.play(made, engine, env, chat, plan)
    failures = [resets.failed(one, plan, count) for one in made]
    said = _reflections(engine, chat, plan, failures)
    retries = [
      _retries(one, chat, plan.limits, *each)
      for one, *each in zip(made, failures, said, mix(said))
    ]
    for one, task, each in zip(made, tasks, retries):
      started = len(each)
      branching.grow(one, first + count - started, env, chat, task, plan)
      one.leaves += [branching.Leaf(retry.row, 0, []) for retry in each]
      _number(one)
    branching.play(made, engine, env, chat, plan)
    found = [_told(chat, *parts) for parts in zip(made, retries)]
    return [
      *(one for base, _ in found for one in base),
      *(one for _, pairs in found for one in pairs),
    ]

  strategy.gives = frozenset(  # type: ignore[attr-defined]
    {'pivotal', 'demonstrated'}
  )
  strategy.lacks = frozenset(  # type: ignore[attr-defined]
    {'rollout_entropy', 'routed_experts'}
  )
  strategy.tells = told  # type: ignore[attr-defined]
  return strategy


def told(episodes: Sequence[episode.Episode]) -> dict[str, float]:
  """Of such rollouts: `tokens` that were sampled, reflections included.

  And `retried`, the share of the episodes that are retries, and `improved`,
  that of the retries which earned more than what they retried.
  """
  own = [one for one in episodes if not np.any(one.extras['demonstrated'])]
  tries = [one for one in own if _BETTER in one.extras]
  copied = sum(int(np.sum(x.mask & ~x.extras['pivotal'])) for x in tries)
  better = [float(one.extras[_BETTER][0]) for one in tries]
  return {
    'tokens': costs.sampled(own) - copied,
    'retried': len(tries) / max(len(own), 1),
    **({'improved': float(np.mean(better))} if better else {}),
  }


def _number(one: branching.Grown) -> None:
  for sample, leaf in enumerate(one.leaves):
    leaf.row.sample = sample


def _reflections(
  engine, chat, plan, failures: Sequence[Sequence[resets.Failure]]
) -> list[list[asides.Said]]:
  """What the policy says about each failure."""
  asked: list[episode.Task | None] = [None] * (len(failures) * plan.samples)
  at = lambda place, failure: place * plan.samples + failure.row.sample
  for place, each in enumerate(failures):
    for one in each:
      about = mistakes.asked_why(one.row.task, one.row.exchanges)
      asked[at(place, one)] = about
  said = asides.ask(engine, chat, plan, asked)
  return [
    [said[at(place, one)][0] for one in each]
    for place, each in enumerate(failures)
  ]


def _retries(one, chat, limits, failures, own, told) -> list[Retry]:
  """Rows to play on, of the failures that can be tried again.

  Args:
    one: the leaves of the task.
    chat: how text becomes ids.
    limits: budgets of an episode.
    failures: of the task.
    own: the reflection on each, which says where to try again.
    told: the reflection that each retry is told.
  """
  made = []
  for failure, about, said in zip(failures, own, told):
    task = failure.row.task
    opening = _opening(chat, task, said)
    if opening is None:
      continue
    turns = len(failure.before)
    named = mistakes.pivot(about.text, turns)
    pivot = turns - 1 if named is None else named
    before = failure.before[pivot]
    row = reopened(before, opening, len(chat.opening(task)))
    if len(row.tokens) < limits.context:
      made.append(Retry(failure, said, pivot, about.tokens, row, len(opening)))
  return made


def _opening(chat, task: episode.Task, said: asides.Said) -> list[int] | None:
  """The ids that tell a task behind a reflection; None where none can."""
  if not said.text.strip():
    return None
  try:
    return chat.opening(hinted.told(task, said.text.strip()))
  except chat_lib.UnfitText:
    return None


def reopened(
  row: strategies.Live, opening: Sequence[int], opened: int
) -> strategies.Live:
  """The row with other ids in place of its first `opened`."""
  made = row.copy(row.path)
  front = strategies.Live(row.task, row.sample, row.path)
  front.observe(opening)
  for name in _COLUMNS:
    rest = getattr(row, name)[opened:]
    setattr(made, name, [*getattr(front, name), *rest])
  made.ends = [at + len(opening) - opened for at in row.ends]
  made.experts = []
  return made


def _told(
  chat, one: branching.Grown, retries: Sequence[Retry]
) -> tuple[list[episode.Episode], list[episode.Episode]]:
  """The episodes of a task, and the pairs of its retries that earned more."""
  retried = {id(x.failure.row): x for x in retries}
  made = []
  for leaf in one.leaves[: len(one.leaves) - len(retries)]:
    base, retry = leaf.row.episode(), retried.get(id(leaf.row))
    if retry:
      asked = np.zeros(len(base.tokens), np.int32)
      asked[-1] = retry.asked
      base = base._replace(extras={**base.extras, pieces.DISCARDED: asked})
    made.append(_marked(base, retry.pivot if retry else 0))
  pairs: list[episode.Episode] = []
  for retry in retries:
    opening = chat.opening(retry.row.task)
    plain = reopened(retry.row, opening, retry.opened).episode()
    better = sum(plain.rewards) > sum(retry.failure.row.rewards)
    mark = np.full(len(plain.tokens), better)
    plain = plain._replace(extras={**plain.extras, _BETTER: mark})
    made.append(_marked(plain, retry.pivot))
    if episode.graded(plain) and better:
      pairs += _pair(retry)
  return made, pairs


def _marked(one: episode.Episode, pivot: int) -> episode.Episode:
  told = {
    'pivotal': one.turn >= pivot,
    'demonstrated': np.zeros(len(one.tokens), bool),
  }
  return one._replace(extras={**one.extras, **told})


def _pair(retry: Retry) -> list[episode.Episode]:
  """A reflection and the retry behind it, to be imitated."""
  guided = resets.from_turn(retry.row.episode(), retry.pivot)
  said = retry.said
  assert said.sample is not None
  row = strategies.Live(retry.row.task, retry.row.sample, ())
  row.observe(said.prompt)
  row.take(said.sample)
  row.exchanges.append(episode.Exchange(said.text, episode.Turn('')))
  row.end(guided.status)
  task = guided.task._replace(id=guided.task.id + episode.DEMONSTRATION)
  return [
    _imitated(one._replace(task=task, row=number))
    for number, one in enumerate((row.episode(), guided))
  ]


def _imitated(one: episode.Episode) -> episode.Episode:
  n = len(one.tokens)
  told = {'pivotal': np.zeros(n, bool), 'demonstrated': np.ones(n, bool)}
  return one._replace(extras={**one.extras, **told})


r3l = reflected(2)
r3l_shuffled = reflected(2, of_another)
