"""What all pictures share: their colors, and how they are written."""

import os

from matplotlib import figure
from matplotlib.backends import backend_agg

# Told apart by those who see fewer colors (Okabe and Ito, 2008).
COLORS = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9')
INK, FAINT = '#333333', '#dddddd'


def save(drawing: figure.Figure, path: str | os.PathLike) -> None:
  """Writes a PNG file; equal drawings are equal files.

  The canvas is named, so that no display and no global state is touched, and
  the metadata is left out.
  """
  canvas = backend_agg.FigureCanvasAgg(drawing)
  with open(path, 'wb') as file:
    canvas.print_png(file, metadata={'Software': None})
