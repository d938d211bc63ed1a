"""WebRL: failures seed new tasks, and past successes are trained on again.

Zehan Qi et al., arXiv:2411.02337. A run has phases. The tasks of a phase grow
out of the failures of the one before: the environment varies them, where a
language model writes instructions in the paper, and they need no judge of
whether they are feasible. What earns nothing here was not solved; a model that
labels outcomes may be wrong about that, an environment is not. The paper's
loss, (beta log(pi / pi_ref) - A)^2 under the policy of the phase before, is not
here: a method of `offpolicy` over one with a critic stands in its place.
"""

from typing import Any

import numpy as np

from arl import episode, ranges
from arl.prompts import curricula, rejection, replay

_VARYING, _REMEMBERED = 3, 256


def phases(
  pool: curricula.Pool,
  *,
  steps: ranges.Count = 20,
  low: ranges.Fraction = 0.05,
  high: ranges.Fraction = 0.75,
) -> curricula.Curriculum:
  """Tasks of the pool first, then variations of what was failed in.

  A variation stays in the next phase if its predicted success lies between the
  bounds: the critic's value of its prompt. In a run without a critic its first
  rollouts decide instead, and outside of the bounds it is not met again. Where
  a phase has too few variations, or nothing was failed in, tasks of the pool
  fill the batch.

  Its metrics are how many variations were `made` for a phase and `kept`, the
  success `predicted` for those, and the success of `varied` tasks in a step.

  Args:
    pool: of tasks.
    steps: of a phase.
    low: what is solved less often is too hard.
    high: what is solved more often is too easy.

  Raises:
    ValueError: the environment cannot vary a task, or low is not below high.
  """
  if pool.env.vary is None:
    raise ValueError(
      'webrl.phases asks the environment to vary tasks, which it cannot; choose'
      " another config.prompts.choose, or config.env 'keydoor.make',"
      " 'tools.make' or 'arithmetic.make'."
    )
  if low >= high:
    raise ValueError(f'webrl.phases: low {low} is not below high {high}.')
  stream = curricula.shuffled(pool)

  def begin():
    drawn = {'varied': [], 'next': 0, 'failed': []}
    return {'steps': 0, 'stream': stream.begin(), **drawn}

  def choose(state, step):
    at = state['next']
    mine = state['varied'][at : at + pool.batch]
    tasks = [episode.task_from_json(one) for one in mine]
    state = {**state, 'next': at + len(mine)}
    if len(tasks) < pool.batch:
      more, told = stream.choose(state['stream'], step)
      tasks += more[: pool.batch - len(tasks)]
      state = {**state, 'stream': told}
    return tasks, state

  def observe(state, groups, told):
    names = {one['id'] for one in state['varied']}
    rates = {group.task.id: _rate(group) for group in groups}
    failed = [
      episode.task_to_json(group.task)
      for group in groups
      if rates[group.task.id] == 0
    ]
    mine = [rate for id, rate in rates.items() if id in names]
    facts = {'varied': float(np.mean(mine))} if mine else {}
    if told.values is None:  # what was tried stays by what it showed
      state = _judged(state, rates, low, high)
    count = state['steps'] + 1
    failed = [*state['failed'], *failed][-_REMEMBERED:]
    state = {**state, 'steps': count, 'failed': failed}
    if state['next'] >= len(state['varied']):
      state['next'] = 0
    if count % steps == 0:
      state, more = _next_phase(pool, state, told, steps, (low, high))
      facts |= more
    return state, facts

  return curricula.Curriculum(begin, choose, observe)


def _rate(group: episode.Group) -> float:
  """The share of a group's trajectories that are right."""
  found = rejection.trajectories(group)
  return float(np.mean([rejection.right(rows) for rows in found]))


def _judged(state, rates, low, high) -> dict[str, Any]:
  """The state without the variations whose rollouts are out of bounds."""
  at, kept, before = state['next'], [], 0
  for place, one in enumerate(state['varied']):
    if low < rates.get(one['id'], (low + high) / 2) < high:
      kept.append(one)
      before += place < at
  return {**state, 'varied': kept, 'next': before}


def _next_phase(pool, state, told, steps, bounds):
  """The state with what the failures of a phase make, and what to tell."""
  failed = [episode.task_from_json(one) for one in state['failed']]
  rng = np.random.default_rng((pool.seed, state['steps'], _VARYING))
  made = [
    pool.env.vary(failed[int(rng.integers(len(failed)))], rng)
    for _ in range(steps * pool.batch if failed else 0)
  ]
  facts, kept = {'made': float(len(made))}, made
  if made and told.values:
    values = np.asarray(told.values(made), float)
    inside = (bounds[0] < values) & (values < bounds[1])
    kept = [task for task, stays in zip(made, inside) if stays]
    if kept:
      facts['predicted'] = float(np.mean(values[inside]))
  facts['kept'] = float(len(kept))
  varied = [episode.task_to_json(task) for task in kept]
  return {**state, 'varied': varied, 'next': 0, 'failed': []}, facts


def successes(
  *,
  size: ranges.Count = 1024,
  times: ranges.Count = 2,
  low: ranges.Fraction = 0.5,
  high: ranges.Fraction = 0.95,
) -> replay.Replay:
  """Replays steps of past successes that the policy is neither sure nor far of.

  Right trajectories are kept. To what a step samples come, at random and at
  most `times` as many groups, those of their turns whose likelihood under the
  policy of now, exp of the mean log-prob of a token, is above `low` and not
  above `high`; the other turns go off the mask. They earn what they earned, so
  a method with a critic learns from them; the rewards of a group of successes
  do not differ, and a group baseline gives it nothing.

  Args:
    size: groups that are kept; the oldest fall out.
    times: replayed groups for each fresh one.
    low: see above.
    high: see above.
  """

  def draw(buffer, fresh, now):
    alive = [
      item for item in buffer if now.version - item.version <= now.max_age
    ]
    order = now.rng.permutation(len(alive))[: times * len(fresh)]
    drawn = [_renewed(alive[i], now, low, high) for i in sorted(order)]
    again = [item for item in drawn if item is not None]
    new = [item for item in map(_right, fresh) if item is not None]
    items = [*fresh, *again]
    facts = {
      'drawn': float(len(again)),
      'size': float(len(alive)),
      'between': len(again) / max(len(drawn), 1),
    }
    return replay.Drawn(
      items, [1.0] * len(items), tuple([*alive, *new][-size:]), facts
    )

  return replay.Replay(draw, extra=lambda batch: times * batch)


def _right(item: replay.Item) -> replay.Item | None:
  """The item with its right trajectories alone; None where it has none."""
  found = rejection.trajectories(item.group)
  rows = [one for each in found if rejection.right(each) for one in each]
  if not rows:
    return None
  return item._replace(group=item.group._replace(episodes=rows))


def _renewed(item, now, low: float, high: float) -> replay.Item | None:
  """The item with its turns between the bounds; None where there is none.

  Each row is one trajectory then, and its last token has earned what the whole
  had, since what is off the mask earns nothing.
  """
  logps = iter(now.score(item.group.episodes))
  kept = []
  for rows in episode.trajectories(item.group.episodes):
    total = sum(map(episode.total_reward, rows))
    for one in rows:
      told = one._replace(logp=np.where(one.mask, next(logps), 0))
      mask = rejection.between(told, low, high).mask
      if mask.any():
        kept.append(_cut(one, mask, total))
  if not kept:
    return None
  return item._replace(group=item.group._replace(episodes=kept))


def _cut(
  one: episode.Episode, mask: np.ndarray, total: float
) -> episode.Episode:
  rewards = np.zeros_like(one.rewards)
  rewards[np.flatnonzero(mask)[-1]] = total
  logp = np.where(mask, one.logp, 0)
  return one._replace(mask=mask, logp=logp, rewards=rewards, row=0)
