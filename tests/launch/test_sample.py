"""Episodes of a model as a file of conversations, and what is told of them."""

import json

import numpy as np
import pytest
import tiny

from arl import episode
from arl.train import loop
from launch import sample


def lines(folder):
  text = (folder / sample.FILE).read_text()
  return [json.loads(line) for line in text.splitlines()]


def test_a_record_is_what_was_said():
  one = episode.Episode(
    task=episode.Task('a/1', 'q?', {}, system='s', example=('p', 'b')),
    sample=0,
    tokens=np.arange(5, dtype=np.int32),
    mask=np.array([0, 1, 0, 0, 1], bool),
    logp=np.zeros(5, np.float32),
    rewards=np.zeros(5, np.float32),
    turn=np.array([0, 0, 0, 1, 1], np.int32),
    status=episode.FINISHED,
    exchanges=(
      episode.Exchange('f', episode.Turn('7')),
      episode.Exchange('=7', episode.Turn('', 1.0, True)),
    ),
  )
  made = sample.record(one, 'tool', 'letters')
  assert (made['id'], made['kind']) == ('a/1', 'letters')
  said = [
    (m['role'], m['content'], m.get('train', True)) for m in made['messages']
  ]
  assert said == [
    ('system', 's', True),
    ('user', 'p', True),
    ('assistant', 'b', False),
    ('user', 'q?', True),
    ('assistant', 'f', True),
    ('tool', '7', True),
    ('assistant', '=7', True),
  ]
  silent = one._replace(mask=np.array([0, 0, 0, 0, 1], bool))
  assert sample.record(silent, 'tool', '')['messages'][4]['train'] is False
  wordless = one._replace(exchanges=(one.exchanges[0]._replace(action=''),))
  said = sample.record(wordless, 'tool', '')['messages'][-1]
  assert said == {'role': 'assistant', 'content': '', 'train': False}
  assert sample._spelt(made, ['=7']) and not sample._spelt(made, ['=8'])
  with pytest.raises(ValueError, match='its context was rewritten'):
    sample.record(one._replace(row=1), 'tool', '')


@pytest.fixture(scope='module')
def model(tmp_path_factory, compiled_once):
  del compiled_once
  return tiny.write_model(tmp_path_factory.mktemp('models') / 'tiny')


def test_what_is_sampled_can_be_imitated(model, tmp_path):
  config = tiny.config(model, steps=2)
  made = sample.sample(config, tmp_path / 'sampled')
  written = json.loads((tmp_path / 'sampled/results.json').read_text())
  assert written == json.loads(json.dumps(made))
  found = lines(tmp_path / 'sampled')
  assert 0 < made['kept'] == len(found) < 32  # none with a special token
  assert made['tasks_kept'] <= made['tasks'] == 8
  assert made['sampled']['episodes'] == 2 * 4 * 4
  tokens = made['sampled']['tokens'] * made['sampled']['graded']
  assert made['sampled_tokens'] == round(tokens)
  assert {one['kind'] for one in found} == {'tiny'}

  path = tmp_path / 'sampled' / sample.FILE
  env = {
    'name': 'conversations.make',
    'path': str(path),
    'held_out': 0,
    'weights': {'tiny': 1.0},
    'judged': {'name': 'tiny.letters'},
  }
  config = tiny.config(
    '',
    model={'size': 'tiny'},
    steps=6,
    method={'name': 'supervised.weighted'},
    env=env,
    prompts={'samples': 1},
    updates={'per_batch': 1},
    rollout={'strategy': 'conversations.whole'},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 8},
  )
  loop.train(config, tmp_path / 'sft')
  first, *_, last = tiny.rows(tmp_path / 'sft')
  assert last['loss/imitation'] < first['loss/imitation']
  config.method = {'name': 'supervised.actobs', 'observation_coef': 0.5}
  config.rollout.strategy = 'conversations.with_observations'
  config.steps = 1
  loop.train(config, tmp_path / 'actobs')
  assert np.isfinite(tiny.rows(tmp_path / 'actobs')[0]['loss/imitation'])


def test_the_same_is_sampled_again(model, tmp_path):
  config = tiny.config(model, steps=1, prompts={'select': 'select.varied'})
  for name in 'ab':
    sample.sample(config, tmp_path / name)
  assert lines(tmp_path / 'a') == lines(tmp_path / 'b')


def test_nothing_kept_is_an_error(model, tmp_path, monkeypatch):
  made = tiny.letters()

  def unpaid(state, text):
    after, turn = made.step(state, text)
    return after, turn._replace(reward=0.0)

  monkeypatch.setattr(tiny, 'letters', lambda: made._replace(step=unpaid))
  config = tiny.config(model, steps=1, prompts={'select': 'rejection.verified'})
  with pytest.raises(
    ValueError, match='rejection.verified kept none of the 16'
  ):
    sample.sample(config, tmp_path)
  assert not (tmp_path / 'results.json').exists()
