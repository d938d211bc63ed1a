"""Lines in their bands, in small multiples, as a PNG file."""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib import axes, figure, ticker

from arl.report import picture

_DASHES = ('-', '--', '-.', ':', (0, (5, 1)), (0, (1, 1)))
_WIDE = 2  # sets of axes side by side


class Line(NamedTuple):
  """A share and its band over x: [n] numbers each."""

  x: Sequence[float]
  share: Sequence[float]
  low: Sequence[float]
  high: Sequence[float]


def draw(
  parts: Mapping[str, Mapping[str, Line]],
  *,
  across: str,
  unit: str,
  path: str | os.PathLike,
) -> None:
  """Draws a set of axes for each part, all from 0 to 1.

  Args:
    parts: title -> label -> its line, at most six of them.
    across: what x counts.
    unit: what the lines are.
    path: of the PNG file to write.

  Raises:
    ValueError: there is no part, or one without lines or with too many.
  """
  most = len(picture.COLORS)
  if not parts or not all(0 < len(lines) <= most for lines in parts.values()):
    raise ValueError(
      f'bands: got parts of {[len(lines) for lines in parts.values()]} lines,'
      f' expected at least one part and 1 to {most} lines in each; split it.'
    )
  wide = min(len(parts), _WIDE)
  high = -(-len(parts) // wide)
  size = 4.6 * wide, 2.9 * high
  drawing = figure.Figure(size, layout='constrained', dpi=150)
  for place, (title, lines) in enumerate(parts.items(), start=1):
    axis = drawing.add_subplot(high, wide, place)
    for style, (label, line) in enumerate(lines.items()):
      _line(axis, label, line, style)
    _dress(axis, title, across, unit)
  picture.save(drawing, path)


def _line(axis: axes.Axes, label: str, line: Line, style: int) -> None:
  color = picture.COLORS[style]
  axis.plot(
    line.x, line.share, label=label, color=color, linestyle=_DASHES[style],
    linewidth=1.5,
  )  # fmt: skip
  axis.fill_between(
    line.x, line.low, line.high, color=color, alpha=0.12, linewidth=0
  )


def _dress(axis: axes.Axes, title: str, across: str, unit: str) -> None:
  axis.set_title(title, fontsize=10, loc='left', color=picture.INK)
  axis.set_xlabel(across, fontsize=8, color=picture.INK)
  axis.set_ylabel(unit, fontsize=8, color=picture.INK)
  axis.set_ylim(-0.03, 1.03)
  axis.xaxis.set_major_locator(ticker.MaxNLocator(6, steps=(1, 2, 5, 10)))
  axis.grid(True, color=picture.FAINT, linewidth=0.6)
  axis.set_axisbelow(True)
  axis.tick_params(colors=picture.INK, labelsize=8)
  axis.spines[['top', 'right']].set_visible(False)
  axis.legend(fontsize=7, frameon=True, framealpha=0.8, edgecolor='none')
