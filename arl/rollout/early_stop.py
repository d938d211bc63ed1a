"""More rollouts for the prompts that still tell something, fewer for others.

A stop by entropy at the level of the allocation; a survey calls it ARPO, which
does no such thing (`arl.rollout.arpo`). No rollout is cut off: a prompt whose
first rollouts were sure of themselves and all ended alike gets no more of them,
and what it leaves goes to prompts that were uncertain or whose outcomes differ.
"""

import functools
from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.rollout import costs, strategies, vine

LOW = 0.2  # the quantile of the entropies below which a prompt is sure
MOST = 2  # rollouts of a task, in prompts.samples


def early(first: int) -> strategies.Strategy:
  """The strategy that looks after the first rollouts of each task.

  A task is stopped if the mean entropy of its turns is below the number
  `entropy_floor` and all of its rollouts earned the same. All others get their
  `prompts.samples`, and what the stopped ones leave, one at a time, the most
  uncertain first among those whose outcomes differ, then among the rest; to at
  most twice `prompts.samples` each. What is left then is not sampled.

  The floor is a knob of the loop, which follows a quantile over batches: the
  metric `rollout/entropy_low` is the 20 % quantile over the tasks of a batch.
  With a floor of 0 nothing is stopped.

  Args:
    first: rollouts after which a task is looked at.

  Raises:
    ValueError: fewer than 2.
  """
  if first < 2:
    raise ValueError(
      f'early_stop.early: {first} rollouts cannot differ; give 2 or more.'
    )

  def strategy(engine, env, chat, tasks, plan, *, entropy_floor: float):
    """Multi-turn episodes, not as many of each task.

    As `strategies.multi_turn`, and:

    Raises:
      ValueError: fewer samples than are looked at, or an engine without
        entropies.
    """
    if plan.samples < first:
      raise ValueError(
        f'early_stop.early: looks at {first} of {plan.samples} samples; set'
        ' prompts.samples to as many or more.'
      )
    plan = plan._replace(sampling=plan.sampling._replace(entropy=True))

    def add(group, task, place, count):
      path = *plan.path, plan.first + place
      for i in range(len(group), len(group) + count):
        row = strategies.start(env, chat, task, plan.limits, i, path)
        group.append(row)

    def play():
      rows = [row for group in groups for row in group]
      vine.play(rows, engine, env, chat, plan)

    groups: list[list[strategies.Live]] = [[] for _ in tasks]
    for place, task in enumerate(tasks):
      add(groups[place], task, place, first)
    play()
    seen = [[row.episode() for row in group] for group in groups]
    more = allocate(
      [turn_entropy(each) for each in seen],
      [outcomes(each) for each in seen],
      entropy_floor,
      samples=plan.samples,
      first=first,
    )
    for place, task in enumerate(tasks):
      add(groups[place], task, place, more[place])
    play()
    return [row.episode() for group in groups for row in group]

  tells = functools.partial(told, first=first)
  strategy.tells = tells  # type: ignore[attr-defined]
  strategy.most = MOST  # type: ignore[attr-defined]
  strategy.together = True  # type: ignore[attr-defined]
  return strategy


def turn_entropy(episodes: Sequence[episode.Episode]) -> float:
  """The mean over the turns of rollouts of their mean entropy, nats.

  nan where nothing was sampled.

  Raises:
    ValueError: the engine told none.
  """
  means = []
  for one in episodes:
    for turn in np.unique(one.turn[one.mask]):
      if 'rollout_entropy' not in one.extras:
        raise ValueError(
          'early_stop.early: the engine tells no entropies, by which it stops;'
          ' choose an engine that does, or strategies.multi_turn.'
        )
      here = one.mask & (one.turn == turn)
      means.append(float(np.mean(one.extras['rollout_entropy'][here])))
  return float(np.mean(means)) if means else np.nan


def outcomes(episodes: Sequence[episode.Episode]) -> set[float]:
  """What the graded of some rollouts earned."""
  return {episode.total_reward(one) for one in episodes if episode.graded(one)}


def allocate(
  entropies: Sequence[float],
  earned: Sequence[set[float]],
  floor: float,
  *,
  samples: int,
  first: int,
) -> list[int]:
  """How many rollouts more each task gets; no more in all than without stops.

  Args:
    entropies: of the first rollouts of each task; nan for unknown.
    earned: what those earned.
    floor: the entropy below which a task whose rollouts agree is stopped.
    samples: rollouts of a task without stops.
    first: rollouts that each task has had.
  """
  stopped = [
    len(each) == 1 and entropy < floor
    for entropy, each in zip(entropies, earned)
  ]
  more = [0 if stop else samples - first for stop in stopped]
  spare = sum(stopped) * (samples - first)
  known = np.nan_to_num(entropies)
  order = sorted(
    (i for i, stop in enumerate(stopped) if not stop),
    key=lambda i: (len(earned[i]) < 2, -known[i]),
  )
  room = MOST * samples - first
  while spare and any(more[i] < room for i in order):
    for i in order:
      if spare and more[i] < room:
        more[i] += 1
        spare -= 1
  return more


def told(episodes: Sequence[episode.Episode], first: int) -> dict[str, float]:
  """What a batch shows.

  `tokens` that were sampled, `stopped_frac`, the share of the tasks that got no
  more rollouts, and `entropy_low`, the quantile over the tasks of the entropy
  of their first rollouts.
  """
  groups = [group.episodes for group in episode.groups(episodes)]
  sizes = [len(group) for group in groups]
  stopped = sizes.count(first) if max(sizes) > first else 0
  begun = [[e for e in group if e.sample < first] for group in groups]
  known = [x for x in map(turn_entropy, begun) if np.isfinite(x)]
  made = {
    'tokens': float(costs.sampled(episodes)),
    'stopped_frac': stopped / len(groups),
  }
  if known:
    made['entropy_low'] = float(np.quantile(known, LOW))
  return made


two, four = early(2), early(4)
