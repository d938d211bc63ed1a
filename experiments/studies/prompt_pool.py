"""A pool of prompts whose chances of success are known, and drift.

No model: a prompt has a logit of success, a rollout is a coin. Two worlds: in
one the logits drift on their own, the same for every curriculum; in the other
they grow by what is trained on.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, keydoor
from arl.prompts import beliefs, curricula, estimates, webrl

SIZE, BATCH, SAMPLES = 300, 24, 8
Make = Callable[[curricula.Pool], curricula.Curriculum]


def kgps_still(pool: curricula.Pool) -> curricula.Curriculum:
  """KGPS that expects no common drift."""
  return estimates.kgps(pool, drifting=0.0)


CURRICULA: dict[str, Make] = {
  'uniform': curricula.shuffled,
  'running mean': estimates.running_mean,
  'MoPPS': estimates.mopps,
  'KGPS': estimates.kgps,
  'KGPS without drift': kgps_still,
  'learnability (R-Zero)': estimates.r_zero,
  'learnability (Absolute Zero)': estimates.absolute_zero,
}


def _env() -> base.Env:
  def never(*_: Any) -> Any:
    raise NotImplementedError('nothing is played here')

  def task(split, index):
    return episode.Task(base.task_id('coin', split, index), '', {})

  return base.Env(task, never, never, never, never)


def pool(seed: int) -> curricula.Pool:
  return curricula.Pool(_env(), SIZE, BATCH, seed)


def _one(task: episode.Task, sample: int, won: bool) -> episode.Episode:
  mask = np.array([False, True])
  zeros = np.zeros(2, np.float32)
  rewards = np.array([0, won], np.float32)
  ids = np.zeros(2, np.int32)
  return episode.Episode(
    task, sample, ids, mask, zeros, rewards, ids, episode.FINISHED
  )


def groups(
  tasks: list[episode.Task], logits: np.ndarray, rng: np.random.Generator
) -> tuple[list[episode.Group], np.ndarray, np.ndarray]:
  """Rollouts of tasks: the groups, their places and how many succeeded."""
  places = np.array([int(task.id.rpartition('/')[2]) for task in tasks])
  won = rng.random((len(tasks), SAMPLES)) < beliefs.sigmoid(
    logits[places, None]
  )
  made = [
    episode.Group(task, [_one(task, j, w) for j, w in enumerate(row)])
    for task, row in zip(tasks, won)
  ]
  return made, places, won.sum(axis=1)


def _mixed(won: np.ndarray) -> np.ndarray:
  return (won > 0) & (won < SAMPLES)


def rate(state: curricula.State) -> np.ndarray | float:
  """What a curriculum expects of each prompt; 1/2 where it expects nothing."""
  if 'arrays' not in state:
    return 0.5
  arrays = {name: np.array(x) for name, x in state['arrays'].items()}
  if 'mean' in arrays:
    belief = beliefs.Logits(arrays['mean'], arrays['variance'])
    return beliefs.expected(lambda p: p, belief)
  return beliefs.rate(beliefs.Counts(arrays['won'], arrays['lost']))


class Drift(NamedTuple):
  """How logits change in a step: all by `common`, each by noise."""

  common: float = 0.02
  each: float = 0.05

  def size(self) -> float:
    return float(np.hypot(self.common, self.each))


def drifting(make: Make | None, steps: int, seed: int) -> dict[str, float]:
  """What a curriculum chooses while all prompts drift; None for an oracle.

  Of the steps after the first quarter: `mixed`, the share of groups whose
  rewards differ; the mean error of the success that it expects, of all prompts
  and of the chosen; and the `rollouts` for each mixed group.
  """
  world, rng = (
    np.random.default_rng((seed, 0)),
    np.random.default_rng((seed, 1)),
  )
  logits, move = world.normal(-1.5, 2.0, SIZE), Drift()
  there = pool(seed)
  curriculum = (make or curricula.shuffled)(there)
  state, mixed, errors, own = curriculum.begin(), [], [], []
  for step in range(steps):
    tasks, state = curriculum.choose(state, step)
    true = beliefs.sigmoid(logits)
    expected = rate(state)
    if make is None:
      worth = beliefs.mixed(true, SAMPLES)
      tasks = [there.task(int(i)) for i in np.argsort(-worth)[:BATCH]]
      expected = true
    made, places, won = groups(tasks, logits, rng)
    mixed.append(np.mean(_mixed(won)))
    error = np.abs(expected - true)
    errors.append(np.mean(error))
    own.append(np.mean(error[places]))
    state, _ = curriculum.observe(state, made, curricula.Told(move.size()))
    logits = logits + world.normal(move.common, move.each, SIZE)
  later = slice(steps // 4, None)
  share = float(np.mean(mixed[later]))
  return {
    'mixed': share,
    'error': float(np.mean(errors[later])),
    'error of the chosen': float(np.mean(own[later])),
    'rollouts': SAMPLES / share,
  }


def learning(
  make: Make,
  seed: int,
  *,
  rounds: int = 1,
  target: float = 0.6,
  most: int = 1500,
) -> dict[str, float]:
  """Steps and rollouts until the pool's mean success reaches a target.

  Training on a group moves all logits by a little and its own by more, both in
  proportion to the variance of its rewards, and a batch has BATCH places, full
  or not. With several rounds only mixed groups are trained on, and further
  prompts are rolled out until there are BATCH of them.
  """
  rng = np.random.default_rng((seed, 2))
  logits = np.random.default_rng((seed, 0)).normal(-2.5, 2.0, SIZE)
  curriculum = make(pool(seed))
  state, rollouts, spreadless = curriculum.begin(), 0, []
  before = logits
  for step in range(most):
    if np.mean(beliefs.sigmoid(logits)) >= target:
      break
    kept, fresh, count = np.zeros((0, 2)), [], 0
    while count < rounds and (not count or len(kept) < BATCH):
      tasks, state = curriculum.choose(state, step)
      if not tasks:
        break
      made, places, won = groups(tasks, logits, rng)
      fresh, count = [*fresh, *made], count + 1
      rollouts += won.size * SAMPLES
      new = np.stack([places, won], axis=1)
      kept = np.concatenate([kept, new[_mixed(won)] if rounds > 1 else new])
    kept = kept[:BATCH]
    spreadless.append(np.mean(~_mixed(kept[:, 1])) if len(kept) else 0.0)
    share = kept[:, 1] / SAMPLES
    signal = share * (1 - share)
    before, logits = logits, logits + 0.2 * signal.sum() / BATCH
    np.add.at(logits, kept[:, 0].astype(int), signal)
    change = float(np.mean(np.abs(logits - before)))
    state, _ = curriculum.observe(state, fresh, curricula.Told(change))
  reached = np.mean(beliefs.sigmoid(logits)) >= target
  return {
    'steps': float(step) if reached else np.nan,
    'rollouts': float(rollouts) if reached else np.nan,
    'without spread': float(np.mean(spreadless)),
  }


def growing(steps: int, seed: int, *, critic: bool) -> dict[str, float]:
  """WebRL's phases on key-door chains whose success falls with their length.

  A chain of n doors is solved with chance sigmoid(skill - 1.5 n), and training
  on groups whose rewards differ raises the skill. `varied` is the success of
  variations in the last half of the steps and `inside` the share of them whose
  chance lies in the bounds; `pool` is the success of the pool's tasks, of 4
  doors, at the end, beside that of as much training on them alone, `alone`.
  """
  env = keydoor.make(length=4)
  there = curricula.Pool(env, SIZE, BATCH, seed)
  skill, rates, inside = 1.0, [], []
  curriculum = webrl.phases(there, steps=10)
  state, rng = curriculum.begin(), np.random.default_rng((seed, 3))

  def chance(tasks, skill):
    doors = np.array([len(task.data['sides']) for task in tasks])
    return beliefs.sigmoid(skill - 1.5 * doors)

  for step in range(steps):
    tasks, state = curriculum.choose(state, step)
    true = chance(tasks, skill)
    won = rng.random((BATCH, SAMPLES)) < true[:, None]
    made = [
      episode.Group(task, [_one(task, j, w) for j, w in enumerate(row)])
      for task, row in zip(tasks, won)
    ]
    varied = np.array(['varied' in task.id for task in tasks])
    if step >= steps // 2 and varied.any():
      rates.append(np.mean(true[varied]))
      inside.append(np.mean((true[varied] > 0.05) & (true[varied] < 0.75)))
    skill += _lesson(won)
    ask = functools.partial(chance, skill=skill) if critic else None
    state, _ = curriculum.observe(state, made, curricula.Told(values=ask))
  alone, rng = 1.0, np.random.default_rng((seed, 3))
  for _ in range(steps):
    true = np.full((BATCH, 1), beliefs.sigmoid(np.array(alone - 6.0)))
    alone += _lesson(rng.random((BATCH, SAMPLES)) < true)
  return {
    'varied': float(np.mean(rates)) if rates else np.nan,
    'inside': float(np.mean(inside)) if rates else np.nan,
    'pool': float(beliefs.sigmoid(np.array(skill - 6.0))),
    'alone': float(beliefs.sigmoid(np.array(alone - 6.0))),
  }


def _lesson(won: np.ndarray) -> float:
  """What a batch teaches: the mean variance of its groups, as skill."""
  share = won.mean(axis=1)
  return 0.3 * float(np.mean(share * (1 - share)))
