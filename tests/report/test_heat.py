import numpy as np
import pytest
from matplotlib import image

from arl.report import heat


def draw(values, path, rows=('a', 'b'), columns=('x', 'y', 'z')):
  heat.heat(values, rows=rows, columns=columns, title='t', path=path)
  return image.imread(path)


def test_more_is_brighter_and_nan_is_blank(tmp_path):
  low = draw(np.zeros((2, 3)), tmp_path / 'low.png')
  high = draw(np.ones((2, 3)), tmp_path / 'high.png')
  blank = draw(np.full((2, 3), np.nan), tmp_path / 'blank.png')
  assert low.shape == high.shape == blank.shape
  means = [pixels[..., :3].mean() for pixels in (low, high, blank)]
  assert means[0] < means[1] < means[2]


def test_equal_tables_are_equal_files(tmp_path):
  for name in 'ab':
    draw(np.eye(2, 3), tmp_path / name)
  assert (tmp_path / 'a').read_bytes() == (tmp_path / 'b').read_bytes()


def test_what_does_not_fit(tmp_path):
  with pytest.raises(ValueError, match=r'shape \(2, 2\) for 2 rows and 3 col'):
    draw(np.eye(2), tmp_path / 'a')
  with pytest.raises(ValueError, match=r'from 0.0 to 2.0; they must be in'):
    draw(2 * np.eye(2, 3), tmp_path / 'a')
