"""Worked examples of which tasks are chosen, and of prompts that do not matter.

The filter's surprise is 0 in a step without an observation.
"""

import numpy as np
import worked_runs as w

from arl.prompts import beliefs, collapse

# Of 8 rollouts each: successes, or none made; and the KL of the update before.
TRACE = (0, 0.01), (None, 0.01), (2, 0.02), (7, 0.05), (8, 0.01)


def _utilities(belief: beliefs.Logits) -> list[float]:
  """Of 8 rollouts: how likely they are mixed; and p (1 - p)."""
  uses = lambda p: beliefs.mixed(p, 8), beliefs.variance_of_success
  return [float(beliefs.expected(use, belief)[0]) for use in uses]


def _at(mean: float, variance: float) -> w.Row:
  belief = beliefs.Logits(np.array([mean]), np.array([variance]))
  return lambda: np.array(_utilities(belief))


def _trace():
  belief, rows = beliefs.Logits(np.zeros(1), np.full(1, 4.0)), []
  for solved, divergence in TRACE:
    noise = beliefs.process_noise(np.sqrt(2 * divergence), base=0.02, scale=1.0)
    belief = beliefs.drifted(belief, drift=0.0, noise=noise)
    surprise = 0.0
    if solved is not None:
      made = beliefs.corrected(belief, np.array([solved]), np.array([8]))
      belief, surprise = made.belief, made.surprise[0]
    both = _utilities(belief)
    rows.append([belief.mean[0], belief.variance[0], surprise, *both])
  return np.array(rows)


_OWN = np.array([[-2.0, -5, -5], [-5, -2, -6], [-5, -6, -2]])

TABLE: w.Table = {
  'kgps.trace': _trace,
  'kgps.util_certain_hard': _at(-4.0, 0.1),
  'kgps.util_uncertain_hard': _at(-4.0, 6.0),
  'ragen2.MI': lambda: np.array(collapse.information(_OWN)),
  'ragen2.MI_collapsed': lambda: np.array(
    collapse.information(np.full((3, 3), -2.0))
  ),
}
