"""Success through the stages of a pipeline, end to end, as a PNG file."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib import axes, figure

from arl.report import picture


class Part(NamedTuple):
  """One stage.

  Attributes:
    name: of the stage.
    note: a line below it, such as what it cost.
    points: (share of the stage done, success) in order, held out and sampled;
      none for a stage that changes no policy.
  """

  name: str
  note: str
  points: Sequence[tuple[float, float]]


def draw(parts: Sequence[Part], title: str, path: str | os.PathLike) -> None:
  """Draws the stages side by side, each as wide as the others.

  Args:
    parts: in the order in which they ran.
    title: of the picture.
    path: of the PNG file to write.

  Raises:
    ValueError: there are no stages.
  """
  if not parts:
    raise ValueError('stages: got no stages, expected at least one.')
  size = (max(4.0, 1.2 + 1.5 * len(parts)), 3.6)
  drawing = figure.Figure(size, layout='constrained', dpi=150)
  axis = drawing.add_subplot()
  _dress(axis, parts, title)
  for place, part in enumerate(parts):
    if not part.points:
      continue
    x = [place + share for share, _ in part.points]
    y = [value for _, value in part.points]
    color = picture.COLORS[place % len(picture.COLORS)]
    axis.plot(x, y, marker='o', markersize=3.5, linewidth=1.6, color=color)
    axis.annotate(
      f'{y[-1]:.2f}', (x[-1], y[-1]), xytext=(-4, 5), ha='right',
      textcoords='offset points', fontsize=8, color=picture.INK,
    )  # fmt: skip
  picture.save(drawing, path)


def _dress(axis: axes.Axes, parts: Sequence[Part], title: str) -> None:
  axis.set_title(title, fontsize=11, loc='left', color=picture.INK)
  axis.set_ylabel('held-out success, sampled', color=picture.INK)
  axis.set_xlim(0, len(parts))
  axis.set_ylim(-0.03, 1.08)
  for place in range(1, len(parts)):
    axis.axvline(place, color=picture.INK, linestyle='--', linewidth=0.8)
  labels = [f'{part.name}\n{part.note}'.rstrip() for part in parts]
  axis.set_xticks([i + 0.5 for i in range(len(parts))], labels)
  axis.grid(True, axis='y', color=picture.FAINT, linewidth=0.6)
  axis.set_axisbelow(True)
  axis.tick_params(colors=picture.INK, labelsize=8, bottom=False)
  axis.spines[['top', 'right']].set_visible(False)
