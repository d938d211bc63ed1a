"""Ahead of the learner through a server, which takes weights as it samples."""

import pytest
import test_rollouts_ahead
import tiny

from arl.train import loop
from tests.rollout import serving

pytestmark = pytest.mark.usefixtures('compiled_once')


@pytest.mark.parametrize('pause', ['retract', 'in_place'])
def test_a_run_through_a_server(model_folder, tmp_path, monkeypatch, pause):
  paused = []
  with serving.running(model_folder, context=24) as client:
    config = test_rollouts_ahead.settings(
      model_folder,
      engine={
        'urls': str(client.base_url),
        'folder': str(tmp_path / 'weights'),
        'pause': pause,
      },
    )
    config.steps = 3
    engine = client.serving.engine
    pause_ = engine.pause

    def noted(mode):
      paused.append((mode, engine.load()['running']))
      return pause_(mode)

    monkeypatch.setattr(engine, 'pause', noted)
    now = loop.train(config, tmp_path / 'run')
  assert int(now.updates) == 6
  rows = tiny.rows(tmp_path / 'run')
  assert max(row['ahead/age_max'] for row in rows) <= test_rollouts_ahead.AHEAD
  assert rows[-1]['ahead/age'] > 0 and rows[-1]['audit/unsampled'] == 0
  assert {mode for mode, _ in paused} == {pause} and len(paused) >= 3
