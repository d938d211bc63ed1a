"""The tool environment: its episodes, its splits and its demonstrator."""

import re

import numpy as np
import pytest

from arl import episode, kinds
from arl.envs import base, tools

ENV = tools.make()
LOOK_UP = episode.Task(
  'by hand',
  'pin of abc?',
  {
    'plan': ['get(abc.pin)', 'get(xyz.pin)'],
    'records': {'abc.pin': 'see xyz', 'xyz.pin': '731'},
    'answer': '731',
  },
)
SUM = episode.Task(
  'by hand too',
  'what is 57*8?',
  {'plan': ['calc(57*8)'], 'records': {}, 'answer': '456'},
)


def transcript(task, actions):
  state, seen = ENV.reset(task), []
  for action in actions:
    state, turn = ENV.step(state, action)
    seen.append((turn.text, turn.reward, turn.done))
  return seen


def test_the_two_kinds_of_episode():
  assert transcript(LOOK_UP, ['get(abc.pin)', 'get(xyz.pin)', '=731']) == [
    ('see xyz', 0.0, False),
    ('731', 0.0, False),
    ('', 1.0, True),
  ]
  assert transcript(SUM, ['calc(57*8)', '=456']) == [
    ('456', 0.0, False),
    ('', 1.0, True),
  ]


@pytest.mark.parametrize(
  'action, observation',
  [
    ('get(abd.pin)', "error: no key 'abd.pin'"),
    ('get(abc)', "error: no key 'abc'"),
    ('get()', "error: get: 'key' is a required property"),
    ('get(abc.pin,2)', 'error: use get(key)'),
    ('get abc.pin', 'error: use name(arguments)'),
    ('get(abc.pin', 'error: use name(arguments)'),
    ('gte(abc.pin)', "error: no tool 'gte'; tools: calc, get"),
    ('GET(É)', "error: no tool 'get'; tools: calc, get"),
    ('get(É~)', "error: no key '??'"),
    ('731', 'error: use name(arguments)'),
    ('calc(57/8)', 'error: calc takes a+b, a-b or a*b'),
    ('calc(9**9**9)', 'error: calc takes a+b, a-b or a*b'),
    ('calc(12345*1)', 'error: calc takes a+b, a-b or a*b'),
    ('calc(9999*-9999)', '-99980001'),
    ('calc(3--4)', '7'),
    (' get( abc.pin ) ', 'see xyz'),
  ],
)
def test_observations(action, observation):
  assert transcript(LOOK_UP, [action]) == [(observation, 0.0, False)]


@pytest.mark.parametrize(
  'answer, reward',
  [
    ('=731', 1.0),
    (' =731\n', 1.0),
    ('=0731', 0.0),
    ('=731.0', 0.0),
    ('=730', 0.0),
    ('=', 0.0),
    ('=731 =730', 0.0),
    ('==731', 0.0),
  ],
)
def test_answers(answer, reward):
  assert transcript(LOOK_UP, [answer]) == [('', reward, True)]


@pytest.mark.parametrize(
  'action, valid',
  [
    ('=1', True),
    ('get(abc.pin)', True),
    ('get(nothing)', True),  # a call that cannot be served is a call
    ('calc(57/8)', True),
    ('get(abc.pin,2)', False),
    ('get(abc.pin', False),
    ('gte(abc.pin)', False),
  ],
)
def test_valid_are_answers_and_calls_of_tools_there_are(action, valid):
  _, turn = ENV.step(ENV.reset(ENV.task(base.TRAIN, 0)), action)
  assert turn.valid is valid


def test_the_oracle_goes_on_from_anywhere():
  state = ENV.reset(LOOK_UP)
  for action in ('get(abd.pin)', 'calc(1+1)', 'get(abc.pin)', 'oops'):
    state, _ = ENV.step(state, action)
  assert ENV.oracle(state) == 'get(xyz.pin)'


def test_stable_for_ever():
  task = ENV.task(base.TRAIN, 2)
  assert task.prompt == 'pin of xzy?'
  assert task.data['records'] == {'xzy.pin': 'see lvx', 'lvx.pin': '731'}


def test_splits_share_no_name_and_no_sum():
  subjects: dict[str, set[str]] = {split: set() for split in base.SPLITS}
  for split in base.SPLITS:
    for index in range(3000):
      task = ENV.task(split, index)
      subjects[split].update(re.findall(r'[0-9]+[*+-][0-9]+', task.prompt))
      subjects[split].update(key[:3] for key in task.data['records'])
  assert not subjects[base.TRAIN] & subjects[base.HELD_OUT]
  assert min(map(len, subjects.values())) > 2000


def test_kinds_and_pointers_are_spread_evenly():
  calls = [len(ENV.task(base.TRAIN, i).data['records']) for i in range(3000)]
  shares = np.bincount(calls) / 3000
  np.testing.assert_allclose(shares, [3 / 9, 2 / 9, 2 / 9, 2 / 9], atol=0.03)


def test_values_cannot_be_guessed():
  answers = [ENV.task(base.TRAIN, i).data['answer'] for i in range(3000)]
  _, counts = np.unique(answers, return_counts=True)
  assert counts.max() < 30


@pytest.mark.parametrize('split', base.SPLITS)
def test_episodes_are_short_and_within_the_alphabet(split):
  longest = 0
  for index in range(1000):
    task = ENV.task(split, index)
    exchanges = base.play(ENV, task, ENV.oracle, 4)
    texts = [task.prompt]
    for one in exchanges:
      texts += [one.action, one.turn.text]
    texts = texts[:-1]
    assert set(''.join(texts)) <= set(tools.ALPHABET)
    longest = max(longest, len(''.join(texts)) + len(texts))
  assert longest == 76


def test_the_demonstrator_is_mostly_wrong():
  rng = np.random.default_rng(0)
  act = lambda state: ENV.noisy(state, rng)
  first, rewards, lengths = [], [], []
  for index in range(2000):
    task = ENV.task(base.TRAIN, index)
    exchanges = base.play(ENV, task, act, 4)
    first.append(exchanges[0].action.startswith('='))
    rewards.append(exchanges[-1].turn.reward)
    texts = [task.prompt]
    for one in exchanges:
      texts += [one.action, one.turn.text]
    lengths.append(len(''.join(texts)) + len(texts))
  assert 0.39 < np.mean(rewards) < 0.45
  assert 0.52 < np.mean(first) < 0.58
  assert np.mean(np.array(lengths) > 128) < 0.01


def test_a_demonstrator_without_faults_is_the_oracle():
  perfect = tools.make(guess=0.0, fault=0.0)
  rng = np.random.default_rng(0)
  for index in range(50):
    task = ENV.task(base.TRAIN, index)
    act = lambda state: perfect.noisy(state, rng)
    assert base.play(ENV, task, act, 4) == base.play(ENV, task, ENV.oracle, 4)


def test_a_demonstrator_at_fault_never_calls_right():
  wrong = tools.make(guess=0.0, fault=1.0)
  rng = np.random.default_rng(0)
  for index in range(200):
    task = ENV.task(base.TRAIN, index)
    state = ENV.reset(task)
    assert wrong.noisy(state, rng) != ENV.oracle(state)


def test_a_step_of_the_plan_scores_one_and_any_other_nothing():
  env = tools.make()
  for index in range(30):
    task = env.task(base.TRAIN, index)
    state = env.reset(task)
    plan = task.data['plan']
    actions = ['get(nobody.pin)', 'hm', *plan, plan[-1]]  # one of them again
    scores = []
    for action in actions:
      state, turn = env.step(state, action)
      scores.append(turn.process)
    assert scores == [0, 0, *[1] * len(plan), 0]
    _, turn = env.step(state, env.answer(task))
    assert turn.process == turn.reward == 1
    _, turn = env.step(state, '=0')
    assert turn.process == turn.reward == 0


@pytest.mark.parametrize(
  'text', ['get(abc.pin)', 'calc(1+2)', '=731', 'hm', '', '=', 'get(']
)
def test_each_character_has_a_kind(text):
  made = tools.make().parts(text)
  assert len(made) == len(text)
  assert set(made) <= {kinds.OTHER, kinds.FORMAT, kinds.NAME, kinds.ARGUMENTS}
