"""Values with their intervals, one below the other in parts, as a PNG file."""

import os
from collections.abc import Mapping, Sequence

from matplotlib import axes, figure

from arl.report import bars, picture

_INCHES = 0.2  # of a line


def draw(
  parts: Mapping[str, Sequence[bars.Bar]],
  *,
  title: str,
  unit: str,
  reference: float,
  path: str | os.PathLike,
) -> None:
  """Draws a dot and its interval a line, below the title of their part.

  Args:
    parts: title -> its lines, from top to bottom. A value of None is undefined,
      and has no dot.
    title: what is measured.
    unit: the label of the horizontal axis.
    reference: where the dashed line is.
    path: of the PNG file to write.

  Raises:
    ValueError: there are no lines.
  """
  if not any(parts.values()):
    raise ValueError('forest: got no lines, expected at least one.')
  lines = len(parts) + sum(map(len, parts.values()))
  size = 6.4, 1.2 + _INCHES * lines
  drawing = figure.Figure(size, layout='constrained', dpi=150)
  axis = drawing.add_subplot()
  axis.axvline(reference, color=picture.INK, linestyle='--', linewidth=1)
  labels = []
  for style, (part, made) in enumerate(parts.items()):
    labels.append(part)
    for bar in made:
      _line(axis, len(labels), bar, picture.COLORS[style % len(picture.COLORS)])
      labels.append(bar.label)
  _dress(axis, labels, title, unit)
  for label in axis.get_yticklabels():
    if label.get_text() in parts:
      label.set_fontweight('bold')
  picture.save(drawing, path)


def _line(axis: axes.Axes, place: int, bar: bars.Bar, color: str) -> None:
  if bar.value is None:
    return
  axis.plot(bar.value, place, 'o', markersize=4, color=color)
  if bar.interval is not None:
    low, high = bar.interval
    axis.hlines(place, low, high, color=color, linewidth=1.6)


def _dress(
  axis: axes.Axes, labels: Sequence[str], title: str, unit: str
) -> None:
  axis.set_title(title, fontsize=11, loc='left', color=picture.INK)
  axis.set_xlabel(unit, color=picture.INK)
  axis.set_yticks(range(len(labels)), labels)
  axis.set_ylim(len(labels) - 0.5, -0.5)
  axis.grid(True, axis='x', color=picture.FAINT, linewidth=0.6)
  axis.set_axisbelow(True)
  axis.tick_params(colors=picture.INK, labelsize=8)
  axis.tick_params(axis='y', length=0)
  axis.spines[['top', 'right', 'left']].set_visible(False)
