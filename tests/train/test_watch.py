"""A run keeps samples and warnings, and goes on with them when resumed."""

import json

import pytest
import tiny

from arl.evaluate import checklist, doctor, findings
from arl.train import loop, metrics, watch

pytestmark = pytest.mark.usefixtures('compiled_once')


@pytest.fixture(scope='module')
def run(model_folder, tmp_path_factory):
  """A run of four steps, evaluated every second, that leaves out nothing."""
  folder = tmp_path_factory.mktemp('watched') / 'run'
  loop.train(tiny.config(model_folder, checkpoint={'every': 1}), folder)
  return folder


def test_the_config_can_be_read_back(run, model_folder):
  config = json.loads((run / watch.CONFIG).read_text())
  assert config == tiny.config(model_folder, checkpoint={'every': 1}).to_dict()


def test_samples_are_of_the_first_step_and_of_those_evaluated(run):
  kept = watch.read(run, watch.SAMPLES)
  assert [one['step'] for one in kept] == [1] * 8 + [2] * 8 + [4] * 8
  rewards = [one['reward'] for one in kept[:8]]
  assert rewards == sorted(rewards)
  assert watch.latest(run) == kept[-8:]


def test_a_sample_is_an_episode_with_what_both_sides_said(run):
  for one in watch.read(run, watch.SAMPLES):
    n = len(one['pieces'])
    for name in ('mask', 'turn', 'logp', 'old_logp'):
      assert len(one[name]) == n, name
    assert one['logp'] == pytest.approx(one['old_logp'], abs=1e-4)
    assert checklist.spoken(one) and not one['cut']
    said = [p for p, on in zip(one['pieces'], one['mask']) if on]
    actions = ''.join(x['action'] for x in one['exchanges'])
    assert ''.join(said).replace('!', '') == actions


def test_the_warnings_are_those_that_the_metrics_give(run):
  rows = metrics.read(run)
  noted, told = set(), []
  config = json.loads((run / watch.CONFIG).read_text())
  for end in range(1, len(rows) + 1):
    for each in doctor.changed(noted, findings.Run(rows[:end], config)):
      told.append((end, each.name, each.state))
      noted ^= {each.name}
  kept = watch.read(run, watch.WARNINGS)
  assert [(x['step'], x['name'], x['state']) for x in kept] == told
  assert told  # four steps of six letters are cut off often
  assert len(watch.warnings(run)) == len(told)
  report = (run / 'report.html').read_text()
  assert all(x['name'] in report for x in kept)


def test_a_resumed_run_keeps_what_the_run_keeps(run, model_folder, tmp_path):
  folder = tmp_path / 'cut'
  tiny.cut(run, folder, 3)
  with (folder / watch.SAMPLES).open('a') as file:
    file.write('{"step": 4, "half')
  loop.train(tiny.config(model_folder, checkpoint={'every': 1}), folder)
  for name in (watch.SAMPLES, watch.WARNINGS):
    assert (folder / name).read_text() == (run / name).read_text()


def test_nothing_is_kept_of_a_step_between(tmp_path, model_folder):
  config = tiny.config(model_folder)
  seen = watch.make(config, tmp_path, 0, chat=None)
  seen.keep(3, [tiny.episodes(1, 1)], None)
  assert watch.read(tmp_path, watch.SAMPLES) == []
