import json

import jax
import pytest
import tiny
from matplotlib import image

from arl.models import sizes, transformer
from arl.train import optimizers
from experiments.studies import quickstart
from launch import layer_contribution


def test_a_contribution_by_hand():
  found = layer_contribution.contribution(before=0.5, single=0.7, full=0.68)
  assert found == pytest.approx(1.111111, abs=1e-6)
  assert layer_contribution.contribution(0.5, 0.5, 0.7) == 0
  assert layer_contribution.contribution(0.5, 0.4, 0.7) == pytest.approx(-0.5)


def test_without_a_gain_it_is_undefined():
  assert layer_contribution.contribution(0.5, 0.7, 0.5) is None


def test_a_row_is_a_mean_over_the_seeds_that_define_it():
  made = layer_contribution.row(
    '1', [0.5, 0.5, 0.5], [0.6, 0.7, 0.8], [0.7, 0.5, 0.9], (3, 4, 5)
  )
  assert made.success == pytest.approx(0.7)
  assert made.seeds == (3, 5)
  assert made.share == pytest.approx((0.5 + 0.75) / 2)
  low, high = made.share_interval
  assert low < 0.5 < 0.75 < high
  none = layer_contribution.row('1', [0.5], [0.6], [0.5], (3,))
  assert none == layer_contribution.Row('1', 0.6, None, None, None, ())


def test_the_pattern_lets_one_block_move():
  model = transformer.make(sizes.tiny()._replace(layers=12))
  params = jax.eval_shape(model.init, jax.random.key(0))
  fixed = optimizers.matching(params, layer_contribution.all_but(1))
  for name, layer in fixed['layers'].items():
    assert set(jax.tree.leaves(layer)) == {name != '1'}
  assert all(jax.tree.leaves([fixed['embed'], fixed['norm']]))


@pytest.fixture
def finished(tmp_path):
  """A folder in which every run of two seeds is finished, by its success."""

  def write(name, before, after):
    (tmp_path / name).mkdir()
    rates = {'before': before, 'after': after}
    results = {k: {'sampled': {'success': v}} for k, v in rates.items()}
    (tmp_path / name / 'results.json').write_text(json.dumps(results))

  for seed, full in ((0, 0.75), (1, 0.5)):
    write(f'sft_seed{seed}', 0, 0.5)
    write(f'dapo_seed{seed}', 0.5, full)
    write(f'block0_seed{seed}', 0.5, 0.5)
    write(f'block1_seed{seed}', 0.5, 1.0)
    folder = tmp_path / f'sft_seed{seed}/final'
    tiny.write_model(folder, shape=tiny.size()._replace(layers=2))
  return tmp_path


def test_from_finished_runs_to_the_report(finished, capsys):
  before, rows = layer_contribution.measure(finished, (0, 1), quick=True)
  layer_contribution.tell(before, rows, (0, 1))
  said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  found = {each['name'].partition('/')[2]: each['value'] for each in said}
  assert found == {
    'before': 0.5,
    'all/after': 0.625,
    'all/share': 1,
    '0/after': 0.5,
    '0/share': 0,
    '1/after': 1.0,
    '1/share': 2,
  }
  assert [each['seeds'] for each in said if 'share' in each['name']] == [
    [0]
  ] * 3
  layer_contribution.write(finished, before, rows)
  table = (finished / 'layer_contribution.md').read_text().splitlines()
  assert table[-1] == '| 1 | 1.000 (1.000 to 1.000) | 2.00 |'
  assert image.imread(finished / 'layer_contribution.png').size


def test_undefined_is_said(finished, capsys):
  before, rows = layer_contribution.measure(finished, (1,), quick=True)
  layer_contribution.tell(before, rows, (1,))
  said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  assert [e['value'] for e in said if 'share' in e['name']] == [None] * 3
  layer_contribution.write(finished, before, rows)
  assert (
    '| 1 | 1.000 | undefined |'
    in (finished / 'layer_contribution.md').read_text()
  )


def test_one_block_is_trained_from_the_warm_start_of_all(tmp_path):
  base = quickstart.trained(tmp_path, 'dapo', 2, True)
  made = layer_contribution.alone(tmp_path, 1, 2, True)
  assert made.config == base.config and made.entry == base.entry
  assert made.overrides == (
    '--config.seed=2',
    '--config.updates.frozen=(?!layers/1/).*',
  )
  assert made.workdir == tmp_path / 'block1_seed2'
