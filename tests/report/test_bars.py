import numpy as np
import pytest
from matplotlib import image

from arl.report import bars

MADE = (
  bars.Bar('0', 0.4, (0.2, 0.6)),
  bars.Bar('1', -0.2),
  bars.Bar('2', None),
)


def draw(made, path):
  bars.bars(made, title='Gain', unit='share', reference=1.0, path=path)
  return image.imread(path)


def filled(pixels):
  """The share of pixels in the color of a bar."""
  color = np.array([0, 0x72, 0xB2]) / 255
  return float((np.abs(pixels[..., :3] - color) < 0.01).all(-1).mean())


def test_a_bar_each_and_none_where_it_is_undefined(tmp_path):
  pixels = draw(MADE, tmp_path / 'a.png')
  assert pixels.shape[:2] == (525, 600)
  assert 0.02 < filled(pixels) < 0.3
  assert filled(draw(MADE[2:], tmp_path / 'b.png')) == 0


def test_many_bars_are_wider(tmp_path):
  assert draw(MADE[:1] * 10, tmp_path / 'a.png').shape[1] == 975
  assert draw(MADE[:1] * 20, tmp_path / 'a.png').shape[1] == 825


def test_equal_bars_are_equal_files(tmp_path):
  for name in 'ab':
    draw(MADE, tmp_path / name)
  assert (tmp_path / 'a').read_bytes() == (tmp_path / 'b').read_bytes()


def test_no_bars_are_refused(tmp_path):
  with pytest.raises(ValueError, match='bars: got no bars'):
    draw((), tmp_path / 'a.png')
