"""pass@k over k, of several policies, as a PNG file."""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib import axes, figure

from arl.report import picture

_MARKERS = 'os^D'


class Curve(NamedTuple):
  """pass@k and its interval, a number each of `ks`."""

  ks: Sequence[int]
  mean: Sequence[float]
  low: Sequence[float] | None = None
  high: Sequence[float] | None = None


def draw(
  panels: Mapping[str, Mapping[str, Curve]], path: str | os.PathLike
) -> None:
  """Draws panels side by side, k on a logarithmic axis.

  Args:
    panels: title -> policy -> its curve.
    path: of the PNG file to write.

  Raises:
    ValueError: there is no panel.
  """
  if not panels:
    raise ValueError('passes: got no panels, expected one at least.')
  size = 4.6 * len(panels), 3.6
  drawing = figure.Figure(size, layout='constrained', dpi=150)
  for place, (title, curves) in enumerate(panels.items(), start=1):
    axis = drawing.add_subplot(1, len(panels), place)
    for style, (name, curve) in enumerate(curves.items()):
      _draw(axis, name, curve, style % len(_MARKERS))
    _dress(axis, title)
  picture.save(drawing, path)


def _draw(axis: axes.Axes, name: str, curve: Curve, style: int) -> None:
  color = picture.COLORS[style]
  axis.plot(
    curve.ks, curve.mean, label=name, color=color, marker=_MARKERS[style],
    markersize=4, linewidth=1.6,
  )  # fmt: skip
  if curve.low is not None and curve.high is not None:
    low, high = np.asarray(curve.low), np.asarray(curve.high)
    axis.fill_between(curve.ks, low, high, color=color, alpha=0.18, linewidth=0)


def _dress(axis: axes.Axes, title: str) -> None:
  axis.set_title(title, fontsize=10, loc='left', color=picture.INK)
  axis.set_xscale('log', base=2)
  axis.set_xlabel('k', color=picture.INK)
  axis.set_ylabel('pass@k', color=picture.INK)
  axis.set_ylim(-0.03, 1.03)
  axis.grid(True, color=picture.FAINT, linewidth=0.6)
  axis.set_axisbelow(True)
  axis.tick_params(colors=picture.INK, labelsize=8)
  axis.spines[['top', 'right']].set_visible(False)
  axis.legend(fontsize=8, frameon=True, framealpha=0.8, edgecolor='none')
