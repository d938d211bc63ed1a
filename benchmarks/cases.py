"""The arrays and numbers that all sides compute with. Needs numpy only."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

SHAPES = ((64, 1024), (256, 8192))
SEED = 0
GROUP = 8  # rollouts of one prompt
CLIP = 0.2
KL_COEF = 0.04
GSPO_LOW, GSPO_HIGH = 3e-4, 4e-4
CISPO_HIGH = 0.2  # weights are cut to 1.2
GAMMA, LAM = 1.0, 0.95
DEVIATION_EPS = 1e-6


class Work(NamedTuple):
  """Something to measure.

  Attributes:
    call: does it and returns when it is done; gives what `outputs` takes.
    outputs: the result as named numpy arrays, to compare with another side.
  """

  call: Callable[[], Any]
  outputs: Callable[[Any], dict[str, np.ndarray]]


def arrays(rows: int, width: int) -> dict[str, np.ndarray]:
  """One sequence a row, with an observation in its middle.

  Log-probs are about -1, their ratios spread so that some tokens are clipped.
  Rewards stand on the last token of a sequence, and no two rewards of a group
  are equal.

  Args:
    rows: B, a multiple of GROUP.
    width: T.

  Returns:
    float32 [B, T] `logp`, `old_logp`, `ref_logp`, `value`, `rewards` and
    `mask`, which is 1 on the policy's tokens; float32 [B] `score`, the rewards
    of sequences, and `advantage`, theirs within the group.
  """
  random = np.random.default_rng(SEED)
  shape = (rows, width)
  logp = -np.abs(random.normal(1, 0.7, shape))
  length = random.integers(width // 4, width + 1, rows)[:, None]
  time = np.arange(width)[None]
  observed = (time >= 0.4 * length) & (time < 0.7 * length)
  score = random.integers(0, 2, rows) + 0.1 * random.normal(size=rows)
  groups = score.reshape(-1, GROUP)
  deviation = groups.std(1, ddof=1, keepdims=True) + DEVIATION_EPS
  advantage = (groups - groups.mean(1, keepdims=True)) / deviation
  made = {
    'logp': logp,
    'old_logp': logp + random.normal(0, 0.1, shape),
    'ref_logp': logp + random.normal(0, 0.1, shape),
    'value': random.normal(0, 0.5, shape),
    'rewards': np.where(time == length - 1, score[:, None], 0),
    'mask': (time < length) & ~observed,
    'score': score,
    'advantage': advantage.reshape(-1),
  }
  return {name: x.astype(np.float32) for name, x in made.items()}


def difference(
  ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]
) -> float:
  """The largest difference of any output, over the size of that output.

  The size of an array is its largest element; a scalar is a mean of terms of
  about size 1, so its own size means nothing and 1 is taken.

  Raises:
    ValueError: the outputs differ in name or shape.
  """
  if ours.keys() != theirs.keys():
    raise ValueError(f'outputs {sorted(ours)} against {sorted(theirs)}')
  worst = 0.0
  for name, mine in ours.items():
    other = theirs[name]
    if mine.shape != other.shape:
      raise ValueError(f'{name} is {mine.shape} against {other.shape}')
    size = np.abs(other).max() if other.ndim else 1.0
    error = np.abs(mine.astype(float) - other.astype(float)).max() / size
    worst = max(worst, float(error) if np.isfinite(error) else np.inf)
  return worst
