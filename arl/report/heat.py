"""A table of numbers as a heat map, as a PNG file."""

import os
from collections.abc import Sequence

import numpy as np
from matplotlib import figure

from arl.report import picture


def heat(
  values: Sequence[Sequence[float]],
  *,
  rows: Sequence[str],
  columns: Sequence[str],
  title: str,
  path: str | os.PathLike,
) -> None:
  """Draws numbers in [0, 1] as colors, each written into its cell.

  Args:
    values: [rows, columns]; a nan is left blank.
    rows: labels, from top to bottom.
    columns: labels, from left to right.
    title: what is measured.
    path: of the PNG file to write.

  Raises:
    ValueError: the numbers are not so many, or outside [0, 1].
  """
  table = np.asarray(values, float)
  if table.shape != (len(rows), len(columns)):
    raise ValueError(
      f'heat: got numbers of shape {table.shape} for {len(rows)} rows and'
      f' {len(columns)} columns; give one a cell.'
    )
  known = table[np.isfinite(table)]
  if known.size and not (known.min() >= 0 and known.max() <= 1):
    raise ValueError(
      f'heat: numbers run from {known.min()} to {known.max()}; they must be in'
      ' [0, 1].'
    )
  size = 2.5 + 1.1 * len(columns), 1.2 + 0.28 * len(rows)
  drawing = figure.Figure(size, layout='constrained', dpi=150)
  axis = drawing.add_subplot()
  axis.set_title(title, fontsize=11, loc='left', color=picture.INK)
  axis.imshow(table, cmap='viridis', vmin=0, vmax=1, aspect='auto')
  for (i, j), value in np.ndenumerate(table):
    if np.isfinite(value):
      ink = 'black' if value > 0.6 else 'white'
      axis.text(j, i, f'{value:.2f}', ha='center', va='center', color=ink)
  axis.set_xticks(range(len(columns)), columns, rotation=20, ha='right')
  axis.set_yticks(range(len(rows)), rows)
  axis.tick_params(colors=picture.INK, labelsize=8)
  picture.save(drawing, path)
