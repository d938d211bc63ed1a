"""How costs grow, as PNG files: a panel a model, over chips or over length."""

import os
from collections.abc import Mapping, Sequence

from matplotlib import axes, figure

from arl.report import picture
from arl.train.aot import page
from arl.train.aot.results import Result

_COLORS = {'compute': '#0072b2', 'memory': '#d55e00', 'network': '#009e73'}
_MARKERS = {'compute': 'o', 'memory': 's', 'network': '^'}
_NAMES = {'memory': 'HBM', 'network': 'links'}


def draw(
  panels: Mapping[str, Sequence[tuple[float, Result]]],
  across: str,
  path: str | os.PathLike,
) -> bool:
  """Draws what bounds a step: milliseconds of products, of HBM, of links.

  Args:
    panels: title -> (where it lies on the horizontal axis, result), in order.
    across: what the horizontal axis is, which is logarithmic.
    path: of the PNG file to write.

  Returns:
    Whether there was something to draw: fake devices have no times.
  """
  kept = {
    title: [(x, one) for x, one in points if page.times(one)]
    for title, points in panels.items()
  }
  kept = {title: points for title, points in kept.items() if points}
  if not kept:
    return False
  size = 4.2 * len(kept), 3.4
  drawing = figure.Figure(size, layout='constrained', dpi=150)
  for place, (title, points) in enumerate(kept.items(), start=1):
    axis = drawing.add_subplot(1, len(kept), place)
    _panel(axis, points)
    _dress(axis, title, across, [x for x, _ in points])
    if place == 1:
      axis.set_ylabel('ms of a step at least', color=picture.INK, fontsize=9)
      axis.legend(frameon=False, fontsize=8, labelcolor=picture.INK)
  picture.save(drawing, path)
  return True


def _panel(axis: axes.Axes, points: Sequence[tuple[float, Result]]) -> None:
  found = [(x, page.times(one)) for x, one in points]
  for name, color in _COLORS.items():
    axis.plot(
      [x for x, _ in found],
      [1e3 * getattr(t, name) for _, t in found],
      color=color,
      marker=_MARKERS[name],
      markersize=4,
      linewidth=1.6,
      label=_NAMES.get(name, name),
    )


def _dress(
  axis: axes.Axes, title: str, across: str, places: Sequence[float]
) -> None:
  axis.set_title(title, color=picture.INK, fontsize=10)
  axis.set_xscale('log', base=2)
  axis.set_xticks(places, [f'{x:,.0f}' for x in places])
  axis.minorticks_off()
  axis.set_ylim(bottom=0)
  axis.set_xlabel(across, color=picture.INK, fontsize=9)
  axis.tick_params(colors=picture.INK, labelsize=8)
  axis.grid(axis='y', color=picture.FAINT, linewidth=0.6)
  for side in ('top', 'right'):
    axis.spines[side].set_visible(False)
