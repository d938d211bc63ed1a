"""Bars with intervals, as PNG files."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib import figure

from arl.report import picture

_FEW = 12  # bars whose labels fit side by side


class Bar(NamedTuple):
  """One bar.

  Attributes:
    label: below it.
    value: its height; None where it is undefined, which is then written there.
    interval: (low, high) around the value; None for none.
  """

  label: str
  value: float | None
  interval: Sequence[float] | None = None


def bars(
  made: Sequence[Bar],
  *,
  title: str,
  unit: str,
  reference: float,
  path: str | os.PathLike,
) -> None:
  """Draws bars side by side, and a line to compare them with.

  Args:
    made: from left to right.
    title: what is measured.
    unit: the label of the vertical axis.
    reference: height of the dashed line.
    path: of the PNG file to write.

  Raises:
    ValueError: there are no bars.
  """
  if not made:
    raise ValueError('bars: got no bars, expected at least one; give labels.')
  width = max(4.0, 1.5 + (0.5 if len(made) <= _FEW else 0.2) * len(made))
  drawing = figure.Figure((width, 3.5), layout='constrained', dpi=150)
  axis = drawing.add_subplot()
  axis.set_title(title, fontsize=11, loc='left', color=picture.INK)
  axis.set_ylabel(unit, color=picture.INK)
  axis.axhline(reference, color=picture.INK, linestyle='--', linewidth=1)
  axis.axhline(0, color=picture.INK, linewidth=0.8)
  for place, bar in enumerate(made):
    if bar.value is None:
      axis.text(
        place,
        0,
        'undefined',
        rotation=90,
        ha='center',
        va='bottom',
        color=picture.INK,
      )
      continue
    axis.bar(place, bar.value, width=0.7, color=picture.COLORS[0])
    if bar.interval is not None:
      low, high = bar.interval
      axis.vlines(place, low, high, color=picture.INK, linewidth=1.5)
  axis.set_xlim(-0.6, len(made) - 0.4)
  angle = 90 if len(made) > _FEW else 0
  labels = [bar.label for bar in made]
  axis.set_xticks(range(len(made)), labels, rotation=angle)
  axis.grid(True, axis='y', color=picture.FAINT, linewidth=0.6)
  axis.set_axisbelow(True)
  axis.tick_params(colors=picture.INK, labelsize=9)
  axis.spines[['top', 'right']].set_visible(False)
  picture.save(drawing, path)
