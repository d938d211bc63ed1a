"""The chaos study: what it compares it tells apart, and one real kill."""

import json
import shutil

import pytest

from arl.envs import base
from arl.train import build, loop
from experiments.studies import (
  chaos,
  chaos_config,
  chaos_damage,
  chaos_kills,
  chaos_plan,
  chaos_runs,
  chaos_world,
)

pytestmark = pytest.mark.usefixtures('compiled_once')
STEPS = 4


@pytest.fixture(scope='module')
def case(tmp_path_factory, compiled_once):
  """The plain run, which nothing has happened to."""
  root = tmp_path_factory.mktemp('chaos')
  (root / '.compiled').symlink_to(compiled_once)
  made = chaos.case(root, 'plain', steps=STEPS)
  config = chaos_config.get_config(f'model={made.model},steps={STEPS}')
  loop.train(config, made.whole)
  return made


@pytest.mark.parametrize('way', chaos_config.WAYS)
def test_every_way_is_a_config_that_can_work(way):
  config = chaos_config.get_config(f'model=model,way={way}')
  if way != 'sandboxed':  # which needs bubblewrap
    build.check(config)


def test_an_unknown_way_is_refused():
  with pytest.raises(ValueError, match='way=plian: known are plain'):
    chaos_config.get_config('way=plian')


def test_the_world_pays_for_an_a():
  env = chaos_world.make()
  task = env.task(base.TRAIN, 0)
  paid = lambda text: env.step(env.reset(task), text)[1].reward
  assert paid('ba') == 0.5 and paid('b') == 0
  earned = base.play(env, task, env.oracle, 2)
  assert sum(one.turn.reward for one in earned) == 1


def test_kills_are_aimed_at_every_phase():
  assert sum(chaos.KILLS.values()) == 50
  for way, kills in chaos.KILLS.items():
    drawn = [chaos_kills._drawn(way, i) for i in range(kills)]
    assert drawn == [chaos_kills._drawn(way, i) for i in range(kills)]
    aims = {aim for aim, _, _ in drawn}
    assert len(aims) == min(kills, len(chaos_kills.AIMS))
    assert all(delay >= 0 and after >= 1 for _, delay, after in drawn)


def test_a_page_outlives_what_writes_it(tmp_path):
  path = str(tmp_path / 'page')
  assert chaos_plan.under_way(path) == []
  page = chaos_plan.open_page(path)
  assert chaos_plan.under_way(path) == []
  page[:] = b'update'.ljust(chaos_plan.ROOM, b'\0')
  assert chaos_plan.under_way(path) == ['update']


def test_what_is_compared_is_told_apart(case, tmp_path):
  other = tmp_path / 'other'
  shutil.copytree(case.whole, other)
  assert chaos_runs.differences(case.whole, other) == []
  (other / 'samples.jsonl').write_text('')
  rows = chaos_runs.rows(other)
  lines = (other / 'metrics.jsonl').read_text().splitlines()
  changed = {**json.loads(lines[-1]), 'train/success': -1.0}
  lines[-1] = json.dumps(changed)
  (other / 'metrics.jsonl').write_text('\n'.join(lines) + '\n')
  assert chaos_runs.rows(other)[:-1] == rows[:-1]
  assert chaos_runs.differences(case.whole, other) == ['metrics', 'samples']
  shutil.rmtree(other / f'checkpoints/{STEPS}')
  told = chaos_runs.differences(case.whole, other)
  assert told[:2] == ['parameters and optimizer', 'facts of the checkpoint']


def test_damage_is_noticed_or_harmless(case):
  count = chaos_damage.sweep(case, flips=0)
  assert count['wrong'] == 0 < count['noticed']
  assert count['tried'] == count['noticed'] + count['harmless']


def queue(folder, chosen, coming):
  """A finished run of two steps that has groups on their way."""
  (folder / 'checkpoints/2/meta').mkdir(parents=True)
  items = [{'task': {'id': id}} for id in coming]
  meta = {'wall': 1, 'seal': '', 'metrics': {}}
  meta['gathered'] = {'ahead': {'chosen': chosen, 'items': items}}
  (folder / 'checkpoints/2/meta/metadata').write_text(json.dumps(meta))
  rows = [{'step': i, 'wall': i, 'ahead/given_up': i - 1} for i in (1, 2)]
  text = ''.join(json.dumps(row) + '\n' for row in rows)
  (folder / 'metrics.jsonl').write_text(text)
  (folder / 'config.json').write_text('{"engine": {"urls": ""}}')


def test_groups_that_are_lost_or_used_twice_are_seen(tmp_path):
  queue(tmp_path, 6, ['e'])
  tried = chaos_kills.Try(0, '', -9, [], False, 0, [0], [['a', 'x']], [])
  rest = lambda *groups: chaos_kills.Try(
    0, '', 0, [], False, 0, [0, 1], [list(pair) for pair in groups], []
  )
  # Four trained on, one given up, one on its way; the first try was repeated.
  told = lambda *g: chaos_kills.unaccounted([tried, rest(*g)], tmp_path)
  assert told('ab', 'cd') == []
  assert told('ab', 'cb') == ['a group was trained on twice']
  assert told('ab', 'ce') == ['a group was trained on twice']
  assert told('ab', 'c') == ['a group was lost']


def test_a_run_that_is_killed_goes_on_to_the_same_end(case, monkeypatch):
  """The real command, killed at an update, and the same command again."""
  aim = (chaos_plan.UPDATE, 0.0, STEPS)
  monkeypatch.setattr(chaos_kills, '_drawn', lambda way, number: aim)
  case = case._replace(home=case.home.with_name('real'))
  made = chaos_kills.tries(case, kills=1)
  hit, end = made
  assert hit.killed and hit.where == chaos_plan.UPDATE
  assert hit.played == [0, 1, 2, 3] and hit.resumed == 0
  # That of step 2 may not have been written in time.
  assert end.code == 0 and end.resumed in (0, 2)
  assert end.played == [0, 1, 2, 3][end.resumed :]
  assert hit.differs == end.differs == []
  assert chaos_kills.tries(case, kills=1) == made  # nothing is done again
  cells = chaos.told('plain', made, 1)
  assert cells[-1] == '1 of 1'
