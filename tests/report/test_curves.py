import math

import numpy as np
import pytest
from matplotlib import figure, image

from arl.report import curves


def run(seed, steps=range(1, 6)):
  random = np.random.default_rng(seed)
  return [
    {'step': step, 'wall': 2.0 * step, 'train/success': random.uniform()}
    for step in steps
  ]


def ink(path):
  """The pixels of a PNG that are not white, as a share, and its size."""
  pixels = image.imread(path)
  height, width, _ = pixels.shape
  return float(np.mean((pixels[..., :3] < 1).any(axis=-1))), width, height


def test_png_of_all_panels(tmp_path):
  rows = run(0)
  rows[0] |= {
    'eval/sampled': 0.2,
    'eval/sampled_low': 0.1,
    'eval/sampled_high': 0.3,
    'eval/greedy': math.nan,
  }
  for row in rows:
    row |= {
      'train/reward': 0.5,
      'policy/kl': 1e-3,
      'train/entropy': 1.2,
      'train/tokens': 80,
      'loss/policy': 0.1,
      'loss/kl': math.nan,
      'speed/tokens_per_second': 12000,
      'mismatch/max': 2e-3,
    }
  path = tmp_path / 'curves.png'
  curves.curves(rows, path)
  share, width, height = ink(path)
  assert (width, height) == (1800, 1350)  # eight panels, three by three
  assert 0.01 < share < 0.5


def test_only_panels_with_metrics(tmp_path):
  path = tmp_path / 'curves.png'
  curves.curves(run(0), path)
  share, width, height = ink(path)
  assert (width, height) == (600, 450)
  assert 0.01 < share < 0.5


def test_equal_rows_are_equal_files(tmp_path):
  for name in 'ab':
    curves.curves(run(0), tmp_path / name)
  assert (tmp_path / 'a').read_bytes() == (tmp_path / 'b').read_bytes()


def test_a_band_adds_ink(tmp_path):
  plain = [{'step': step, 'eval/greedy': 0.5} for step in (0, 10)]
  ends = {'eval/greedy_low': 0.2, 'eval/greedy_high': 0.8}
  curves.curves(plain, tmp_path / 'plain.png')
  curves.curves([row | ends for row in plain], tmp_path / 'band.png')
  assert ink(tmp_path / 'band.png')[0] > ink(tmp_path / 'plain.png')[0] + 0.1


def test_no_metric_of_a_panel(tmp_path):
  with pytest.raises(ValueError, match="'other/x'.*'train/success'"):
    curves.curves([{'step': 1, 'other/x': 1}], tmp_path / 'curves.png')
  with pytest.raises(ValueError, match='expected one that a panel shows'):
    curves.curves([], tmp_path / 'curves.png')
  assert not list(tmp_path.iterdir())


def test_series_leaves_out_what_is_missing():
  rows: list[dict[str, float]] = [
    {'step': 0, 'a/b': 1.5},
    {'step': 1},
    {'step': 2, 'a/b': math.nan},
    {'step': 3, 'a/b': 2.5},
  ]
  steps, values = curves.series(rows, 'a/b')
  assert steps.tolist() == [0, 3] and values.tolist() == [1.5, 2.5]
  assert [x.tolist() for x in curves.series(rows, 'a/c')] == [[], []]


def test_compare(tmp_path):
  path = tmp_path / 'compare.png'
  seeds = [run(seed) for seed in range(3)]
  curves.compare({'grpo': seeds, 'one seed': seeds[:1]}, 'train/success', path)
  share, width, height = ink(path)
  assert (width, height) == (960, 600)
  assert 0.01 < share < 0.5


def test_compare_is_over_the_steps_all_seeds_have():
  seeds = [run(0, range(1, 9)), run(1, range(3, 6))]
  steps, values = curves._aligned('a', seeds, 'train/success')
  assert steps.tolist() == [3, 4, 5]
  assert values.shape == (2, 3)
  assert values[0].tolist() == [row['train/success'] for row in seeds[0][2:5]]


@pytest.mark.parametrize('seeds', [[], [run(0), run(1, range(7, 9))]])
def test_compare_refuses_seeds_without_a_common_step(tmp_path, seeds):
  with pytest.raises(ValueError, match="seeds of 'grpo' share no step"):
    curves.compare({'grpo': seeds}, 'train/success', tmp_path / 'a.png')


def test_compare_refuses_nothing(tmp_path):
  with pytest.raises(ValueError, match='no runs'):
    curves.compare({}, 'train/success', tmp_path / 'a.png')


def test_panels_share_a_legend_and_say_what_runs_across(tmp_path):
  rows = [{'step': i * 1000, 'success': i / 4} for i in range(4)]
  other = [{'step': i * 1000, 'success': i / 8} for i in range(4)]
  part = {'one': [rows, other], 'two': [other]}
  for count in (1, 3):
    path = tmp_path / f'{count}.png'
    parts = {f'part {i}': part for i in range(count)}
    curves.panels(parts, 'success', path, across='tokens')
    assert path.read_bytes().startswith(b'\x89PNG')
  with pytest.raises(ValueError, match='a part without runs'):
    curves.panels({'a': {}}, 'success', path, across='tokens')


def test_more_lines_than_colors_can_still_be_told_apart():
  drawing = figure.Figure()
  axis = drawing.add_subplot()
  for style in range(8):
    curves._stroke(axis, np.arange(3), np.arange(3), f'{style}', style)
  looks = {(x.get_color(), x.get_linestyle()) for x in axis.get_lines()}
  assert len(looks) == 8
