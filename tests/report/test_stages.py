import pytest
from matplotlib import image

from arl.report import stages

MADE = (
  stages.Part('start', '10 s', ((0.0, 0.0), (0.5, 0.2), (1.0, 0.3))),
  stages.Part('sampled', '5 s\n2k tokens', ()),
  stages.Part('learnt', '8 s', ((0.0, 0.3), (1.0, 0.7))),
)


def draw(made, path):
  stages.draw(made, 'From start to end', path)
  return image.imread(path)


def test_stages_side_by_side(tmp_path):
  wide = draw(MADE, tmp_path / 'a.png')
  assert wide.shape[:2] == (540, 855)
  assert draw(MADE[:1], tmp_path / 'b.png').shape[1] == 600


def test_equal_stages_are_equal_files(tmp_path):
  for name in 'ab':
    draw(MADE, tmp_path / name)
  assert (tmp_path / 'a').read_bytes() == (tmp_path / 'b').read_bytes()


def test_no_stages_are_refused(tmp_path):
  with pytest.raises(ValueError, match='stages: got no stages'):
    draw((), tmp_path / 'a.png')
