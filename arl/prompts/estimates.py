"""Curricula that estimate how often each task is solved, and choose by it.

Each keeps arrays of one entry a task of the pool. A belief is corrected by the
rollouts of a step, made before its updates, and then carried over the updates.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from arl import ranges
from arl.prompts import beliefs, curricula
from arl.rewards import learning

Arrays = Mapping[str, np.ndarray]


class Estimate(NamedTuple):
  """How success is estimated and what it makes a task worth.

  Attributes:
    begin: arrays [size] or scalars, by name.
    rate: arrays -> expected success, [size].
    worth: (arrays, rng) -> what is gained from each task, [size].
    learn: (arrays, Seen, change) -> (arrays, facts).
  """

  begin: Arrays
  rate: Callable[[Arrays], np.ndarray]
  worth: Callable[[Arrays, np.random.Generator], np.ndarray]
  learn: Callable[
    [Arrays, curricula.Seen, float], tuple[Arrays, curricula.Facts]
  ]


def best(
  pool: curricula.Pool, estimate: Estimate, *, moved: bool = False
) -> curricula.Curriculum:
  """The tasks that are worth most; ties are broken by chance.

  Its metrics are the mean success that was expected of the tasks of a step,
  `expected`, and by how much it was wrong on average, `error`.
  """
  find = curricula.finder(pool)

  def begin():
    return _written(estimate.begin, [])

  def choose(state, step):
    arrays, taken = _read(state)
    rng = np.random.default_rng((pool.seed, step, len(taken)))
    worth = estimate.worth(arrays, rng)
    order = np.lexsort((rng.random(pool.size), -worth))
    chosen = [int(i) for i in order if i not in set(taken)][: pool.batch]
    tasks = [pool.task(i) for i in chosen]
    return tasks, _written(arrays, [*taken, *chosen])

  def observe(state, groups, told):
    arrays, _ = _read(state)
    seen = curricula.seen(groups, find)
    facts = {}
    if len(seen.places):
      wanted = estimate.rate(arrays)[seen.places]
      error = np.abs(wanted - seen.solved / seen.tried)
      facts = {
        'expected': float(np.mean(wanted)),
        'error': float(np.mean(error)),
      }
    after, more = estimate.learn(arrays, seen, told.change)
    return _written(after, []), facts | more

  return curricula.Curriculum(begin, choose, observe, moved)


def _written(arrays: Arrays, taken: list[int]) -> dict[str, Any]:
  made = {name: np.asarray(x).tolist() for name, x in arrays.items()}
  return {'arrays': made, 'taken': taken}


def _read(state: curricula.State) -> tuple[dict[str, np.ndarray], list[int]]:
  arrays = {name: np.array(x, float) for name, x in state['arrays'].items()}
  return arrays, list(state['taken'])


def kgps(
  pool: curricula.Pool,
  *,
  base: ranges.NonNegative = 1e-3,
  scale: ranges.NonNegative = 2.0,
  variance: ranges.Positive = 4.0,
  drifting: ranges.Fraction = 0.1,
) -> curricula.Curriculum:
  """Kalman-guided prompt selection (arXiv:2607.27610, of which an abstract).

  A normal belief about each task's logit of success. Rollouts correct it; an
  update of the policy moves all by a common drift and widens them by
  base + scale * change^2, where `change` is how far it moved log-probs. Chosen
  is what has the largest expected p (1 - p); a task that was not tried for long
  has a wide belief, which brings it back. The filter is ours in its details.

  Args:
    pool: of tasks.
    base: variance an update adds, however small it is.
    scale: of the squared change; 1 to 3. Right where the metric `surprise`,
      the mean squared innovation over its variance, is near 1.
    variance: of the belief about a task that was never tried, whose mean is 0.
    drifting: share of a step's mean gain in the running drift; 0 for none.
  """
  zeros = np.zeros(pool.size)
  logits = lambda arrays: beliefs.Logits(arrays['mean'], arrays['variance'])

  def learn(arrays, seen, change):
    before, at = logits(arrays), seen.places
    mine = beliefs.Logits(before.mean[at], before.variance[at])
    made = beliefs.corrected(mine, seen.solved, seen.tried)
    mean, wide = before.mean.copy(), before.variance.copy()
    mean[at], wide[at] = made.belief
    drift = beliefs.common_drift(
      float(arrays['drift']), made.gained, decay=1 - drifting
    )
    noise = beliefs.process_noise(change, base=base, scale=scale)
    after = beliefs.drifted(
      beliefs.Logits(mean, wide), drift=drift, noise=noise
    )
    facts = {'drift': drift, 'change': change}
    if len(at):
      facts['surprise'] = float(np.mean(made.surprise))
    return {**after._asdict(), 'drift': np.array(drift)}, facts

  use = beliefs.variance_of_success
  estimate = Estimate(
    begin={'mean': zeros, 'variance': zeros + variance, 'drift': np.array(0.0)},
    rate=lambda arrays: beliefs.expected(lambda p: p, logits(arrays)),
    worth=lambda arrays, rng: beliefs.expected(use, logits(arrays)),
    learn=learn,
  )
  return best(pool, estimate, moved=True)


def _counting(
  pool: curricula.Pool,
  worth: Callable[[beliefs.Counts, np.random.Generator], np.ndarray],
  *,
  keep: float,
) -> curricula.Curriculum:
  """The tasks that are worth most by Beta beliefs about their success."""
  ones = np.ones(pool.size)
  counts = lambda arrays: beliefs.Counts(arrays['won'], arrays['lost'])

  def learn(arrays, seen, change):
    del change
    before, at = counts(arrays), seen.places
    mine = beliefs.Counts(before.won[at], before.lost[at])
    after = beliefs.counted(mine, seen.solved, seen.tried, keep=keep)
    won, lost = before.won.copy(), before.lost.copy()
    won[at], lost[at] = after
    return {'won': won, 'lost': lost}, {}

  estimate = Estimate(
    begin={'won': ones, 'lost': ones},
    rate=lambda arrays: beliefs.rate(counts(arrays)),
    worth=lambda arrays, rng: worth(counts(arrays), rng),
    learn=learn,
  )
  return best(pool, estimate)


def mopps(
  pool: curricula.Pool, *, keep: ranges.Fraction = 0.9
) -> curricula.Curriculum:
  """MoPPS (arXiv:2507.04632): success drawn from Beta beliefs, nearest to 1/2.

  Args:
    pool: of tasks.
    keep: share of old counts that stays when a task is tried again.
  """

  def worth(counts, rng):
    return -np.abs(rng.beta(counts.won, counts.lost) - 0.5)

  return _counting(pool, worth, keep=keep)


def running_mean(pool: curricula.Pool) -> curricula.Curriculum:
  """The tasks whose mean success so far is nearest to 1/2: a baseline."""
  return _counting(
    pool, lambda counts, rng: -np.abs(beliefs.rate(counts) - 0.5), keep=1.0
  )


def r_zero(
  pool: curricula.Pool, *, keep: ranges.Fraction = 0.9
) -> curricula.Curriculum:
  """The tasks that R-Zero (arXiv:2508.05004) pays most for: 1 - 2 |p - 1/2|.

  Of the success estimated, not drawn; `keep` as in `mopps`.
  """

  def worth(counts, rng):
    del rng
    return np.array([learning.r_zero_paper(p) for p in beliefs.rate(counts)])

  return _counting(pool, worth, keep=keep)


def absolute_zero(
  pool: curricula.Pool, *, keep: ranges.Fraction = 0.9
) -> curricula.Curriculum:
  """The tasks that Absolute Zero (arXiv:2505.03335) pays most for: 1 - p.

  A task that was tried and not solved as far as is remembered is worth nothing,
  and is not tried again before the others. `keep` as in `mopps`.
  """

  def worth(counts, rng):
    del rng
    solved = (counts.won - 1 > 0.05) | (counts.lost <= 1)
    rates = np.where(solved, beliefs.rate(counts), 0)
    return np.array([learning.absolute_zero(p) for p in rates])

  return _counting(pool, worth, keep=keep)
