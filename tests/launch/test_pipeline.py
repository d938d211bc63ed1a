"""Stages in order, each in its folder; what is made is not made again."""

import json
import pathlib

import ml_collections
import pytest

from launch import pipeline, stage

# A program in the place of a stage: it notes its config, and has results.
_PROGRAM = """
import json, pathlib, sys
flags = dict(f[2:].split('=', 1) for f in sys.argv[1:])
folder = pathlib.Path(flags['workdir'])
config = json.loads(pathlib.Path(flags['config'].split('.py:')[1]).read_text())
(folder / 'ran').open('a').write('x')
if config['seed'] == 13:
  sys.exit(3)
if config['seed'] == 7:
  sys.exit(0)
result = {
  'wall_seconds': 1.5, 'config_hash': 'abc', 'steps': 2, 'method': 'm',
  'models': flags.get('models', ''), 'ran': (folder / 'ran').read_text(),
}
if config['after']:
  result |= {
    when: {'sampled': {'success': x}}
    for when, x in (('before', 0.25), ('after', config['after']))
  }
  row = {'step': 1, 'wall': 1.0, 'eval/sampled': 0.4, 'train/tokens': 2.5,
         'train/graded': 4}
  (folder / 'metrics.jsonl').write_text(json.dumps(row) + '\\n')
else:
  result |= {'sampled_tokens': 70, 'kept': 3, 'tasks': 9}
(folder / 'results.json').write_text(json.dumps(result))
"""


@pytest.fixture(autouse=True)
def programs(tmp_path, monkeypatch):
  """The stages' programs are replaced by the one above."""
  (tmp_path / 'home/launch').mkdir(parents=True)
  for name in ('__init__', 'sft', 'train', 'sample', 'merge'):
    text = '' if name == '__init__' else _PROGRAM
    (tmp_path / 'home/launch' / f'{name}.py').write_text(text)
  monkeypatch.chdir(tmp_path / 'home')
  monkeypatch.delenv('PYTHONPATH', raising=False)


def part(entry, strategy='strategies.multi_turn', models=(), **config):
  config = {'seed': 0, 'after': 0.5, 'rollout': {'strategy': strategy}} | config
  return {'entry': f'launch.{entry}', 'config': config, 'models': models}


def made(**stages):
  stages = stages or {
    'start': part('sft', 'demonstrations.noisy'),
    'learnt': part('train', path='{start}/final'),
    'sampled': part('sample', path='{learnt}/final', after=0),
    'both': part('merge', models=('{learnt}/final', '{start}/final')),
  }
  return ml_collections.ConfigDict(
    {'name': 'some', 'stages': tuple(stages), 'stage': stages}
  )


def told(root):
  return json.loads((root / 'pipeline.json').read_text())


def read(root, name, file):
  return json.loads((root / name / file).read_text())


def ran(root):
  return {p.parent.name: p.read_text() for p in root.glob('*/ran')}


def test_stages_run_in_order_and_once(tmp_path):
  root = tmp_path / 'run'
  assert pipeline.run(made(), root) and pipeline.run(made(), root)
  assert ran(root) == dict.fromkeys(('start', 'learnt', 'sampled', 'both'), 'x')
  assert read(root, 'learnt', 'config.json')['path'] == f'{root}/start/final'
  models = f'{root}/learnt/final,{root}/start/final'
  assert read(root, 'both', 'results.json')['models'] == models
  whole = told(root)
  assert whole['finished'] and whole['seconds'] == 6
  assert whole['sampled_tokens'] == 80
  rows = {row['name']: row for row in whole['stages']}
  tokens = {name: row['sampled_tokens'] for name, row in rows.items()}
  assert tokens == {'start': 0, 'learnt': 10, 'sampled': 70, 'both': 0}
  assert rows['learnt']['points'] == [[0.0, 0.25], [0.5, 0.4], [1.0, 0.5]]
  assert rows['sampled']['after'] is None and rows['sampled']['kept'] == 3
  assert (root / 'pipeline.png').stat().st_size > 1000


def test_it_goes_on_where_it_stopped(tmp_path):
  root = tmp_path / 'run'
  stages = {'a': part('sft'), 'b': part('train', seed=7)}
  assert not pipeline.run(made(**stages), root)
  assert not told(root)['finished']
  stages['b'] = part('train')  # nothing was made of it yet
  assert pipeline.run(made(**stages), root)
  assert ran(root) == {'a': 'x', 'b': 'xx'}


def test_a_stage_that_fails_is_named(tmp_path):
  with pytest.raises(RuntimeError, match='launch.train .* failed'):
    pipeline.run(made(a=part('train', seed=13)), tmp_path / 'run')


def test_other_settings_are_refused(tmp_path):
  root = tmp_path / 'run'
  stages = {'a': part('sft'), 'b': part('train', path='{a}/final')}
  pipeline.run(made(**stages), root)
  changed = {**stages, 'b': part('train', path='{a}/final', seed=1)}
  with pytest.raises(ValueError) as caught:
    pipeline.run(made(**changed), root)
  assert 'stage.config.seed: 0 -> 1' in str(caught.value)
  assert "stage 'b'" in str(caught.value)
  moved = tmp_path / 'moved'
  root.rename(moved)
  assert pipeline.run(made(**stages), moved)  # a folder may be moved
  facts = moved / 'a/results.json'
  facts.write_text(facts.read_text() + ' ')  # the first stage, made anew
  with pytest.raises(ValueError, match='inputs.a'):
    pipeline.run(made(**stages), moved)


@pytest.mark.parametrize(
  'stages, message',
  [
    ({'a': part('serve')}, "stage.a.entry is 'launch.serve'"),
    ({'a': part('sft', path='{b}/final')}, 'no stage before it: it is the fi'),
    (
      {'a': part('sft'), 'b': part('merge', models=('{b}/final',))},
      'no stage before it: a',
    ),
  ],
)
def test_stages_that_cannot_run_are_refused(tmp_path, stages, message):
  with pytest.raises(ValueError, match=message):
    pipeline.run(made(**stages), tmp_path / 'run')
  config = made(a=part('sft'))
  config.stages = ('a', 'a')
  with pytest.raises(ValueError, match="'a' is there twice"):
    pipeline.check(config)


def test_a_setting_may_refer_to_several_stages():
  value = {'teacher': 'a={x}/final,b={y}/final', 'text': '{x} {1}', 'n': [1]}
  assert pipeline.references(value) == {'x', 'y'}
  assert pipeline.resolved(value, pathlib.Path('/r')) == {
    **value,
    'teacher': 'a=/r/x/final,b=/r/y/final',
  }


def test_what_was_told_again_has_no_count_of_tokens(tmp_path):
  config = made(a=part('train', 'retrospective.rewritten'))
  pipeline.run(config, tmp_path)
  assert told(tmp_path)['sampled_tokens'] is None


def test_a_config_out_of_a_file(tmp_path):
  path = tmp_path / 'config.json'
  path.write_text('{"a": {"b": [1, "x"]}}')
  assert stage.get_config(str(path)).a.b == [1, 'x']
  with pytest.raises(ValueError, match='give the path of a JSON file'):
    stage.get_config(str(tmp_path))
  with pytest.raises(ValueError, match='give the path of a JSON file'):
    stage.get_config()
