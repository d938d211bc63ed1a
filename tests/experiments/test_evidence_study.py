"""The study of public task sets: data, stages, numbers and page."""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from arl.envs import base, bfcl
from arl.evaluate import intervals
from arl.train import build, loop
from experiments import public_tasks
from experiments.studies import evidence, evidence_page, runs

ROOT = pathlib.Path(__file__).parents[2]
NAME = 'word_sorting'
REASONING = [n for n in public_tasks.SETS if n != 'bfcl_simple']


def env_of(name):
  """The environment of a set, both stages of which have the same."""
  blocks = [
    public_tasks.get_config(f'stage={stage},on={name}').env
    for stage in public_tasks.STAGES
  ]
  assert blocks[0] == blocks[1]
  try:
    return build.named(blocks[0], 'arl.envs')
  except ImportError as error:
    pytest.skip(str(error))


def tasks_of(name, split, most=10**6):
  one = public_tasks.SETS[name]
  count = min(one['size' if split == base.TRAIN else 'held_out'], most)
  env = env_of(name)
  return env, [env.task(split, index) for index in range(count)]


# The data.


@pytest.mark.parametrize('name', public_tasks.SETS)
def test_what_is_held_out_is_never_trained_on(name):
  _, train = tasks_of(name, base.TRAIN, most=3000)
  _, held_out = tasks_of(name, base.HELD_OUT)
  for key in (lambda task: task.id, lambda task: (task.prompt, task.system)):
    assert not {*map(key, train)} & {*map(key, held_out)}
  if name in REASONING:
    asked = {task.prompt for task in held_out}
    assert {base.split_of(text) for text in asked} == {base.HELD_OUT}
    assert len(asked) > 0.95 * len(held_out)


def test_bfcl_is_divided_by_index_and_shares_one_function():
  _, train = tasks_of('bfcl_simple', base.TRAIN)
  _, held_out = tasks_of('bfcl_simple', base.HELD_OUT)
  numbers = [task.data['bfcl'] for task in (*train, *held_out)]
  assert numbers == [f'simple_python_{i}' for i in range(400)]
  assert len(held_out) == 100
  asked = [
    {t.data['functions'][0]['name'] for t in x} for x in (train, held_out)
  ]
  assert set.intersection(*asked) == {'detailed_weather_forecast'}


@pytest.mark.parametrize('name', public_tasks.SETS)
def test_every_demonstration_is_right(name):
  env, train = tasks_of(name, base.TRAIN, most=300)
  rng = np.random.default_rng(0)
  show = lambda state: env.noisy(state, rng)
  played = [base.play(env, task, show, max_turns=1) for task in train]
  assert {one.turn.reward for (one,) in played} == {1.0}
  assert all(one.turn.done for (one,) in played)


@pytest.mark.parametrize('name', REASONING)
def test_rewards_are_those_of_the_package(name):
  gym = pytest.importorskip('reasoning_gym')
  env, held_out = tasks_of(name, base.HELD_OUT, most=60)
  others, seen = [task.data['answer'] for task in held_out], []
  for task, other in zip(held_out, others[1:] + others[:1]):
    data = task.data
    settings = json.loads(data['settings'])
    theirs = gym.create_dataset(name, seed=0, size=2**30, **settings)
    entry = theirs[data['index']]
    assert entry['question'] == task.prompt
    gold = entry['answer']
    for said in (gold, gold.replace(', ', ','), other, f'{gold}.0', gold[1:]):
      right = theirs.score_answer(said, entry) >= 1
      earned = env.step(env.reset(task), f'<answer>{said}</answer>')[1].reward
      assert earned == right
      seen.append(right)
  assert 0.3 < np.mean(seen) < 0.9


def test_rewards_of_bfcl_are_those_of_its_rules():
  # tests/envs/test_bfcl.py compares the rules with the package's checker.
  env, held_out = tasks_of('bfcl_simple', base.HELD_OUT)
  rng = np.random.default_rng(0)
  for task in held_out:
    inner = task._replace(id=task.id.removeprefix('divided/'))
    for said in (bfcl.answer(inner), bfcl.at_random(bfcl.State(inner), rng)):
      earned = env.step(env.reset(task), said)[1].reward
      assert earned == bfcl.right(inner, said)


def test_one_answer_is_all_there_is():
  for name in public_tasks.SETS:
    for stage in public_tasks.STAGES:
      config = public_tasks.get_config(f'stage={stage},on={name}')
      assert config.rollout.max_turns == 1
      assert config.rollout.turn_tokens == config.rollout.response_tokens


# The stages.


@pytest.mark.parametrize('arg', ['', ',quick'])
@pytest.mark.parametrize('stage', public_tasks.STAGES)
@pytest.mark.parametrize('name', public_tasks.SETS)
def test_settings_hold(name, stage, arg):
  env_of(name)
  build.check(public_tasks.get_config(f'stage={stage},on={name}{arg}'))


@pytest.mark.parametrize(
  'arg, words',
  [
    ('stage=ppo', 'config argument stage=ppo: known are sft, rl.'),
    (
      'on=gsm8k',
      'config argument on=gsm8k: known are word_sorting, bfcl_simple,',
    ),
  ],
)
def test_an_argument_that_means_nothing(arg, words):
  with pytest.raises(ValueError, match=re.escape(words)):
    public_tasks.get_config(arg)


def test_both_stages_run_with_a_tiny_model(tmp_path, compiled_once):
  del compiled_once
  env_of(NAME)
  model = evidence.stand_in(tmp_path / 'model')
  for stage in public_tasks.STAGES:
    arg = f'stage={stage},on={NAME},model={model},quick'
    config = public_tasks.get_config(arg)
    config.rollout.context = 512
    loop.train(config, str(tmp_path / stage))
    row = json.loads((tmp_path / stage / 'metrics.jsonl').read_text())
    assert row['train/failed'] == 0
    if stage == 'sft':
      assert row['train/success'] == 1 and row['loss/imitation'] > 1
    model = tmp_path / stage / 'final'


# The numbers and the page.


def transcripts(rewards, **more):
  """An evaluation of the tasks '0', '1', .. with so many samples each."""
  return {
    'transcripts': [
      {'task': str(i), 'status': 'finished', 'reward': float(x), **more}
      for i, each in enumerate(rewards)
      for x in each
    ]
  }


def test_differences_are_of_the_same_tasks():
  before = transcripts([[0, 0], [1, 0], [1, 1], [0, 0]])
  after = transcripts([[1, 1], [1, 0], [0, 1], [1, 0]])
  mean, interval = evidence.gain(before, after)
  change = [1.0, 0.0, -0.5, 0.5]
  assert mean == np.mean(change)
  assert interval == pytest.approx(
    intervals.bootstrap_mean(change, 0), abs=1e-4
  )


def test_what_has_no_grade_does_not_count():
  before = transcripts([[0], [1]])
  before['transcripts'][0]['status'] = 'reward_error'
  after = transcripts([[1], [1], [1]])
  assert evidence.solved(before) == {'1': 1.0}
  assert evidence.gain(before, after) == (0.0, None)
  with pytest.raises(ValueError, match='without a common task'):
    evidence.gain(before, transcripts([[1]]))


def written(place, policy, solves):
  """Writes evaluations in which the first `solves` of four tasks succeed."""
  for how, (_, samples) in evidence.HOW.items():
    rewards = [[i < solves] * samples for i in range(4)]
    turns = [{'action': f'{policy} says'}]
    found = transcripts(rewards, turns=turns, prompt='What?')
    low, high = intervals.wilson(solves, 4)
    found |= {
      'success': solves / 4, 'success_low': low, 'success_high': high,
      'tasks': 4, 'samples': samples, 'graded': 4 * samples, 'tokens': 9.0,
      'max_tokens': 1,
    }  # fmt: skip
    evidence.evaluation(place, policy, how).write_text(json.dumps(found))


def lines(capsys):
  return {
    x['name']: x
    for x in map(json.loads, capsys.readouterr().out.split('\n')[:-1])
  }


@pytest.fixture
def told(tmp_path, capsys):
  """What is told while the runs of one set are finished but for RL."""
  sets = {}
  for name in public_tasks.SETS:
    place = evidence.Place(name, tmp_path, tmp_path / 'model', False)
    if name == 'chain_sum':
      written(place, 'base', 0)
      written(place, 'sft', 2)
    sets[name] = evidence.tell(place, [0])
  return {'seeds': [0], 'sets': sets}, lines(capsys)


def test_what_is_there_is_told_and_nothing_else(told):
  made, printed = told
  names = {f'evidence/chain_sum/{x}' for x in ('base', 'sft', 'sft - base')}
  assert printed.keys() == {f'{x}/{how}' for x in names for how in evidence.HOW}
  one = printed['evidence/chain_sum/sft - base/greedy']
  assert one['value'] == 0.5 and one['interval'] == [0.0, 1.0]
  assert made['sets']['bfcl_simple'] == {
    'policies': {}, 'gains': {}, 'stages': {},
  }  # fmt: skip


def test_the_page_says_what_was_not_run(told, tmp_path):
  evidence_page.write(told[0], tmp_path)
  text = (tmp_path / 'evidence.md').read_text()
  assert '| chain_sum | after imitation | 0.500 (0.150 to 0.850) |' in text
  assert '| chain_sum | after RL, seed 0 | Not run yet |' in text
  assert '| word_sorting | as it comes | Not run yet |' in text
  assert '+0.500 (+0.000 to +1.000)' in text
  assert '    sft says' in text and '`bfcl_simple`: not run yet.' in text
  drawn = {path.name for path in tmp_path.glob('*.png')}
  assert drawn == {'evidence_chain_sum.png'}
  assert set(re.findall(r'\]\((\S+png)\)', text)) == drawn


def test_the_page_is_that_of_its_numbers():
  path = runs.RESULTS / 'evidence.json'
  made = json.loads(path.read_text(encoding='utf-8'))
  text = (ROOT / 'docs/evidence.md').read_text(encoding='utf-8')
  assert text == evidence_page.page(made)
  for name in re.findall(r'\]\((\S+png)\)', text):
    assert (ROOT / 'docs' / name).exists()


@pytest.mark.slow
def test_a_smoke_run_prints_every_line(tmp_path):
  for name in public_tasks.SETS:
    env_of(name)
  done = subprocess.run(
    [
      sys.executable, '-m', 'experiments.studies.evidence', '--quick',
      f'--workdir={tmp_path}',
    ],
    cwd=ROOT, capture_output=True, text=True,
  )  # fmt: skip
  assert done.returncode == 0, done.stderr[-3000:]
  names = [json.loads(line)['name'] for line in done.stdout.splitlines()]
  who = ['base', 'sft', 'rl_seed0', 'sft - base', 'rl_seed0 - sft']
  assert sorted(names) == sorted(
    f'evidence/{name}/{x}/{how}'
    for name in public_tasks.SETS
    for x in who
    for how in evidence.HOW
  )
