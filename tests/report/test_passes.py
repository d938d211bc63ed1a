"""Pictures of pass@k: files that are the same for the same numbers."""

import pytest

from arl.report import passes

CURVES = {
  'base': passes.Curve([1, 2, 4], [0.1, 0.2, 0.4], [0, 0.1, 0.3], [0.2] * 3),
  'trained': passes.Curve([1, 2, 4], [0.5, 0.5, 0.5]),
}


def test_equal_curves_are_equal_files(tmp_path):
  paths = [tmp_path / name for name in ('a.png', 'b.png', 'c.png')]
  for path in paths[:2]:
    passes.draw({'one': CURVES, 'other': CURVES}, path)
  passes.draw({'one': {'base': CURVES['base']}}, paths[2])
  one, other, less = (path.read_bytes() for path in paths)
  assert one[:4] == b'\x89PNG' and one == other != less


def test_no_panel_is_refused(tmp_path):
  with pytest.raises(ValueError, match='no panels'):
    passes.draw({}, tmp_path / 'x.png')
