"""Learning curves of a run, and comparisons of runs, as PNG files."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import axes, figure, ticker

from arl.report import picture

Row = Mapping[str, float]  # one line of the metrics log, with its 'step'
Rows = Sequence[Row]

# Okabe and Ito's colors, which differ for every kind of color vision, and a
# marker or a dash pattern each, for print.
_MARKERS = 'os^Dv*'
_DASHES = ('-', '--', '-.', ':', (0, (5, 1)), (0, (1, 1)))
_DPI = 150


class Panel(NamedTuple):
  """One set of axes.

  Attributes:
    title: what is measured.
    unit: the label of the vertical axis.
    lines: (key, label) of each line. A key that ends in '/' stands for every
      metric of that group, labeled by the rest of its name.
    bounds: (low, high) of the vertical axis; None lets the data decide.
  """

  title: str
  unit: str
  lines: tuple[tuple[str, str], ...]
  bounds: tuple[float, float] | None = None


PANELS = (
  Panel(
    'Success',
    'success rate',
    (
      ('train/success', 'train, sampled'),
      ('eval/sampled', 'held out, sampled'),
      ('eval/greedy', 'held out, greedy'),
    ),
    (0, 1),
  ),
  Panel('Reward', 'mean reward of an episode', (('train/reward', 'train'),)),
  Panel(
    'KL',
    'KL (nats per token)',
    (
      ('policy/kl', 'from the policy before the update'),
      ('train/ref_kl', 'from the reference'),
    ),
  ),
  Panel('Entropy', 'entropy (nats per token)', (('train/entropy', 'policy'),)),
  Panel('Loss', 'loss', (('loss/', ''),)),
  Panel('Length', 'sampled tokens per episode', (('train/tokens', 'train'),)),
  Panel(
    'Speed',
    'tokens per second',
    (('speed/tokens_per_second', 'whole step'),),
  ),
  Panel('Time', 'share of a step', (('share/', ''),), (0, 1)),
  Panel(
    'Mismatch of engine and trainer',
    'max |difference of logp| (nats)',
    (('mismatch/max', 'over sampled tokens'),),
  ),
)


def curves(rows: Rows, path: str | os.PathLike) -> None:
  """Draws the panels of `PANELS` that the rows have metrics for.

  A line whose metric also exists with the endings `_low` and `_high` gets a
  band between them. Missing and nan values are left out.

  Args:
    rows: of `arl.train.metrics.read`.
    path: of the PNG file to write.

  Raises:
    ValueError: no row has a metric of any panel.
  """
  keys = sorted({key for row in rows for key in row})
  found = [
    (panel, lines) for panel in PANELS if (lines := _present(panel, keys))
  ]
  if not found:
    raise ValueError(
      f'curves: got rows with the metrics {keys}, expected one that a panel '
      f'shows, such as {PANELS[0].lines[0][0]!r}; log it or add a panel.'
    )
  columns = min(len(found), 3)
  height = math.ceil(len(found) / columns)
  drawing = figure.Figure(
    (4.0 * columns, 3.0 * height), layout='constrained', dpi=_DPI
  )
  for index, (panel, lines) in enumerate(found, start=1):
    axis = drawing.add_subplot(height, columns, index)
    _dress(axis, panel)
    for style, (key, label) in enumerate(lines):
      _draw_line(axis, rows, key, label, style)
    _legend(axis)
  picture.save(drawing, path)


def compare(
  runs: Mapping[str, Sequence[Rows]], key: str, path: str | os.PathLike
) -> None:
  """Draws one metric of several runs: the mean over seeds in a min-max band.

  The mean is over the steps that every seed of a run logged the metric at.

  Args:
    runs: label -> the rows of each of its seeds.
    key: the metric.
    path: of the PNG file to write.

  Raises:
    ValueError: there are no runs, or a run's seeds share no step with the
      metric.
  """
  if not runs:
    raise ValueError(
      'compare: got no runs, expected at least one; give label -> seeds.'
    )
  drawing = figure.Figure((6.4, 4.0), layout='constrained', dpi=_DPI)
  axis = drawing.add_subplot()
  _dress(axis, _panel_of(key))
  _draw_runs(axis, runs, key)
  _legend(axis)
  picture.save(drawing, path)


def panels(
  parts: Mapping[str, Mapping[str, Sequence[Rows]]],
  key: str,
  path: str | os.PathLike,
  *,
  across: str,
) -> None:
  """Draws `compare` side by side, a set of axes for each part, one legend.

  Args:
    parts: title -> what `compare` takes, with the same labels in each.
    key: the metric.
    path: of the PNG file to write.
    across: what the rows' 'step' counts.

  Raises:
    ValueError: there are no parts, or one that `compare` would refuse.
  """
  if not parts or not all(parts.values()):
    raise ValueError(
      'panels: got a part without runs, or none; give title -> label -> seeds.'
    )
  wide = min(len(parts), 2)
  high = -(-len(parts) // wide)
  size = 5.2 * wide, 3.4 * high + 0.5
  drawing = figure.Figure(size, layout='constrained', dpi=_DPI)
  for index, (title, runs) in enumerate(parts.items(), 1):
    axis = drawing.add_subplot(high, wide, index)
    _dress(axis, Panel(title, key, ()), across)
    _draw_runs(axis, runs, key)
  lines = axis.get_lines()
  drawing.legend(handles=lines, loc='outside lower center', ncols=4, fontsize=8)
  picture.save(drawing, path)


def _draw_runs(
  axis: axes.Axes, runs: Mapping[str, Sequence[Rows]], key: str
) -> None:
  """Of each label the mean over its seeds, in their min-max band."""
  for style, (label, seeds) in enumerate(runs.items()):
    steps, values = _aligned(label, seeds, key)
    name = label if len(seeds) == 1 else f'{label} (n={len(seeds)})'
    _stroke(axis, steps, values.mean(axis=0), name, style)
    if len(seeds) > 1:
      _band(axis, steps, values.min(axis=0), values.max(axis=0), style)


def series(rows: Rows, key: str) -> tuple[np.ndarray, np.ndarray]:
  """(steps [n], values [n]) of one metric, where it was logged and not nan."""
  points = [
    (row['step'], row[key])
    for row in rows
    if not math.isnan(row.get(key, math.nan))
  ]
  steps, values = np.array(points, np.float64).reshape(-1, 2).T
  return steps, values


def _present(panel: Panel, keys: Sequence[str]) -> list[tuple[str, str]]:
  """The panel's lines whose metrics exist, groups written out."""
  lines = []
  for key, label in panel.lines:
    if key.endswith('/'):
      lines += [(k, k.removeprefix(key)) for k in keys if k.startswith(key)]
    elif key in keys:
      lines.append((key, label))
  return lines


def _panel_of(key: str) -> Panel:
  for panel in PANELS:
    for known, label in panel.lines:
      if known == key:
        return panel._replace(title=f'{panel.title}: {label}')
  return Panel(key, key, ())


def _aligned(
  label: str, seeds: Sequence[Rows], key: str
) -> tuple[np.ndarray, np.ndarray]:
  """(steps [n], values [seeds, n]) on the steps that all seeds have."""
  tables = [dict(zip(*series(rows, key), strict=True)) for rows in seeds]
  steps = sorted(set(tables[0]).intersection(*tables[1:])) if tables else []
  if not steps:
    raise ValueError(
      f'compare: the seeds of {label!r} share no step with {key!r}, expected '
      'each to have logged it; compare runs of one setting that got that far.'
    )
  values = [[table[step] for step in steps] for table in tables]
  return np.array(steps), np.array(values)


def _draw_line(
  axis: axes.Axes, rows: Rows, key: str, label: str, style: int
) -> None:
  steps, values = series(rows, key)
  _stroke(axis, steps, values, label, style)
  bounds = [series(rows, f'{key}{end}') for end in ('_low', '_high')]
  (steps, low), (others, high) = bounds
  if len(steps) and np.array_equal(steps, others):
    _band(axis, steps, low, high, style)


def _stroke(
  axis: axes.Axes, x: np.ndarray, y: np.ndarray, label: str, style: int
) -> None:
  # Few points are marked, as single measurements; many make a thin line.
  # Past six lines the colors come again, with another dash pattern.
  kind, again = style % len(picture.COLORS), style // len(picture.COLORS)
  dash = _DASHES[(kind * (len(x) > 30) + again) % len(_DASHES)]
  looks: dict[str, Any] = (
    {'marker': _MARKERS[kind], 'markersize': 4, 'linewidth': 1.6}
    if len(x) <= 30
    else {'linewidth': 1.0}
  )
  looks['linestyle'] = dash
  axis.plot(x, y, label=label, color=picture.COLORS[kind], **looks)


def _band(
  axis: axes.Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, style: int
) -> None:
  color = picture.COLORS[style % len(picture.COLORS)]
  axis.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)


def _dress(axis: axes.Axes, panel: Panel, across: str = 'step') -> None:
  axis.set_title(panel.title, fontsize=11, loc='left', color=picture.INK)
  axis.set_xlabel(across, color=picture.INK)
  axis.set_ylabel(panel.unit, color=picture.INK)
  axis.xaxis.set_major_locator(ticker.MaxNLocator(6, integer=True))
  axis.yaxis.set_major_formatter(ticker.FuncFormatter(_tick))
  if panel.bounds:
    low, high = panel.bounds
    margin = 0.03 * (high - low)
    axis.set_ylim(low - margin, high + margin)
  axis.grid(True, color='#dddddd', linewidth=0.6)
  axis.set_axisbelow(True)
  axis.tick_params(colors=picture.INK, labelsize=9)
  axis.spines[['top', 'right']].set_visible(False)


def _tick(value: float, position: int | None) -> str:
  del position
  return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.4g}'


def _legend(axis: axes.Axes) -> None:
  axis.legend(fontsize=8, frameon=True, framealpha=0.8, edgecolor='none')
