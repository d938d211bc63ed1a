"""Small multiples of lines in their bands."""

import pytest

from arl.report import bands

LINE = bands.Line([0, 0.5, 1], [1, 0.5, 0], [0.9, 0.3, 0], [1, 0.6, 0.1])
LOOKS = {'across': 'threshold', 'unit': 'share'}


def test_equal_lines_are_equal_files(tmp_path):
  paths = [tmp_path / name for name in ('a.png', 'b.png', 'c.png')]
  parts = {
    'one': {'x': LINE, 'y': LINE},
    'two': {'x': LINE},
    'three': {'y': LINE},
  }
  for path in paths[:2]:
    bands.draw(parts, path=path, **LOOKS)
  bands.draw({'one': {'x': LINE}}, path=paths[2], **LOOKS)
  one, other, less = (path.read_bytes() for path in paths)
  assert one[:4] == b'\x89PNG' and one == other != less


@pytest.mark.parametrize(
  'parts, words',
  [
    ({}, r'parts of \[\] lines'),
    ({'one': {}}, r'parts of \[0\] lines'),
    ({'one': dict.fromkeys('abcdefg', LINE)}, r'\[7\] lines.*1 to 6'),
  ],
)
def test_too_few_and_too_many_are_refused(parts, words, tmp_path):
  with pytest.raises(ValueError, match=words):
    bands.draw(parts, path=tmp_path / 'x.png', **LOOKS)
