"""Pictures of values with their intervals, one below the other."""

import pytest

from arl.report import bars, forest

PARTS = {
  'first': [bars.Bar('a', 0.5, (0.4, 0.7)), bars.Bar('b', None)],
  'second': [bars.Bar('c', 0.9)],
}
LOOKS = {'title': 'Success', 'unit': 'rate', 'reference': 0.5}


def test_equal_values_are_equal_files(tmp_path):
  paths = [tmp_path / name for name in ('a.png', 'b.png', 'c.png')]
  for path in paths[:2]:
    forest.draw(PARTS, path=path, **LOOKS)
  forest.draw({'first': PARTS['first']}, path=paths[2], **LOOKS)
  one, other, less = (path.read_bytes() for path in paths)
  assert one[:4] == b'\x89PNG' and one == other != less


@pytest.mark.parametrize('parts', [{}, {'first': []}])
def test_nothing_is_refused(parts, tmp_path):
  with pytest.raises(ValueError, match='no lines'):
    forest.draw(parts, path=tmp_path / 'x.png', **LOOKS)
