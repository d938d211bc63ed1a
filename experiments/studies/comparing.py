"""What baselines cost until they succeed, and the figures that compare them."""

from collections.abc import Mapping, Sequence

import numpy as np

from arl.evaluate import over_runs
from arl.report import bands, bars, curves, forest
from experiments.baselines import budget
from experiments.studies import baselines, reaching, runs

ENOUGH = 0.8  # success of batches, see `reaching`
REFERENCE = baselines.REFERENCE
CURVES = runs.RESULTS.parents[1] / 'docs' / 'methods' / 'curves'


def cost(seeds: Sequence[curves.Rows]) -> tuple[float | None, float | None]:
  """The medians over seeds of tokens and seconds until ENOUGH.

  One that never got there is behind all others; None where the median is one.
  """
  never = (np.inf, np.inf)
  middle = np.median(
    [reaching.reached(rows, ENOUGH) or never for rows in seeds], axis=0
  )
  tokens, seconds = (float(x) if np.isfinite(x) else None for x in middle)
  return tokens, seconds


def learning(seeds: Sequence[curves.Rows]) -> bands.Line:
  """Success by batches: the mean over seeds, between the least and the most."""
  success = np.array([reaching.running(rows) for rows in seeds])
  batches = [row['step'] for row in seeds[0]]
  mean, low, high = success.mean(0), success.min(0), success.max(0)
  return bands.Line(batches, mean, low, high)


def thresholds(outcomes: Mapping[str, over_runs.Outcomes]) -> np.ndarray:
  """[101] from a tenth below the least score, rounded down, to 1."""
  least = min(over_runs.scores(found).min() for found in outcomes.values())
  return np.linspace(max(0, np.floor(10 * least - 1) / 10), 1, 101)


def _parts(
  lines: Mapping[str, bands.Line],
) -> dict[str, dict[str, bands.Line]]:
  """Lines by family, that of the reference in each."""
  parts = {}
  for title, names in baselines.FAMILIES.items():
    shown = dict.fromkeys((REFERENCE, *names))
    made = {name: lines[name] for name in shown if name in lines}
    if set(made) & set(names):
      parts[title] = made
  return parts


def _bars(
  values: Mapping[str, tuple[float, Sequence[float]]],
) -> dict[str, list[bars.Bar]]:
  parts = {
    title: [bars.Bar(n, *values[n]) for n in names if n in values]
    for title, names in baselines.FAMILIES.items()
  }
  return {title: made for title, made in parts.items() if made}


def alone(name: str, lines: Mapping[str, bands.Line]) -> None:
  """Draws what a baseline learns beside the reference, for its card."""
  CURVES.mkdir(parents=True, exist_ok=True)
  bands.draw(
    {f'{len(runs.seeds())} seeds, mean and range': lines},
    across=f'batch of {budget.EPISODES} episodes',
    unit=f'success, mean of {reaching.AT_ONCE} batches',
    path=CURVES / f'{name}.png',
  )


def draw(
  table: Mapping[str, Sequence[runs.Run]],
  outcomes: Mapping[str, over_runs.Outcomes],
) -> None:
  """Draws the figures beside the table and each baseline's for its card.

  The reference has to be there.
  """
  theirs = outcomes[REFERENCE]
  middle = {
    name: over_runs.interquartile_mean(found, seed=0)
    for name, found in outcomes.items()
  }
  forest.draw(
    _bars(middle),
    title='Interquartile mean over seeds and kinds of task',
    unit='held-out success, sampled',
    reference=middle[REFERENCE][0],
    path=runs.RESULTS / 'baselines_success.png',
  )
  forest.draw(
    _bars(
      {
        name: over_runs.improvement(found, theirs, seed=0)
        for name, found in outcomes.items()
        if name != REFERENCE
      }
    ),
    title='Probability of improvement over GRPO',
    unit='probability',
    reference=0.5,
    path=runs.RESULTS / 'baselines_improvement.png',
  )
  at = thresholds(outcomes)
  profiles = {
    name: bands.Line(*over_runs.profile(found, at, seed=0))
    for name, found in outcomes.items()
  }
  bands.draw(
    _parts(profiles),
    across='success of a seed on a kind of task',
    unit='share of scores above',
    path=runs.RESULTS / 'baselines_profiles.png',
  )
  curve = {
    name: learning([runs.rows(run) for run in row])
    for name, row in table.items()
  }
  bands.draw(
    _parts(curve),
    across=f'batch of {budget.EPISODES} episodes',
    unit=f'success, mean of {reaching.AT_ONCE} batches',
    path=runs.RESULTS / 'baselines_curves.png',
  )
  for name, line in curve.items():
    alone(name, {name: line, REFERENCE: curve[REFERENCE]})
