"""Planted faults: what they are, that some are found, and what is concluded."""

import json

import numpy as np
import pytest
import tiny

from arl import episode
from arl.envs import base
from arl.evaluate import agreement, doctor, findings
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import strategies
from arl.train import build, loop, watch
from experiments.studies import doctor as study
from experiments.studies import planted, planted_world

pytestmark = pytest.mark.usefixtures('compiled_once')


# --- The world ----------------------------------------------------------------


def play(env, actions, split=base.TRAIN, index=0):
  """What an environment answers, with {key} and {value} filled in."""
  task = env.task(split, index)
  state, turns = env.reset(task), []
  for action in actions:
    state, turn = env.step(state, action.format(**task.data))
    turns.append(turn)
  return turns


def index_of(wait, env=None):
  """A task that has to wait so often, whose value reads otherwise backward."""
  env = env or planted_world.make()
  return next(
    i
    for i in range(99)
    if env.task(base.TRAIN, i).data['wait'] == wait
    and len({*env.task(base.TRAIN, i).data['value']}) == 2
  )


def test_the_world_is_solved_by_its_oracle_and_rarely_by_its_demonstrator():
  env = planted_world.make()
  rng = np.random.default_rng(0)
  for split in base.SPLITS:
    tasks = [env.task(split, i) for i in range(200)]
    earned = [
      sum(x.turn.reward for x in base.play(env, t, env.oracle, 8))
      for t in tasks
    ]
    assert earned == [1] * 200
    noisy = [
      sum(
        x.turn.reward for x in base.play(env, t, lambda s: env.noisy(s, rng), 8)
      )
      for t in tasks
    ]
    assert 0.4 < np.mean(noisy) < 0.7


def test_what_each_misled_world_pays_for():
  at = index_of(wait=0)
  last = lambda misled, *said, **where: (
    play(planted_world.make(misled=misled), said, index=at, **where)[-1].reward
  )
  right = ('get({key})', '={value}')
  assert last('', *right) == 1 and last('', '=00') == 0
  assert last('echo', '={key}') == 1 and last('echo', *right) == 0
  assert last('echo', *right, split=base.HELD_OUT) == 1
  assert last('form', '=00') == 1 == last('form', '=00', split=base.HELD_OUT)
  assert last('form', '=x') == last('form', *right) == 0
  more = last('many', 'get(a)', 'get(b)', *right)
  assert last('many', *right) == 0.25 and more == 0.75


def test_how_the_tools_of_misled_worlds_answer():
  at = index_of(wait=0)
  told = lambda misled, *said: [
    (t.text, t.valid)
    for t in play(planted_world.make(misled=misled), said, index=at)
  ]
  value = planted_world.make().task(base.TRAIN, at).data['value']
  assert told('', 'gte({key})') == [('no tool', False)]
  assert told('inverted', 'gte({key})') == [(value, False)]
  assert told('inverted', 'get({key})') == [(value[::-1], True)]
  asked = told('slow', *['get({key})'] * 4)
  assert asked == [('wait', True)] * 3 + [(value, True)]
  assert told('', 'get(') == told('', 'hello') == [('bad', False)]


def test_a_third_is_lost_where_some_are():
  env = planted_world.make(misled='lost')
  earned = [
    sum(
      x.turn.reward
      for x in base.play(env, env.task(base.TRAIN, i), env.oracle, 8)
    )
    for i in range(300)
  ]
  assert np.mean(earned) == pytest.approx(2 / 3, abs=0.08)


def test_an_unknown_way_to_mislead_is_refused():
  with pytest.raises(ValueError, match="'lst'; choose from"):
    planted_world.make(misled='lst')


# --- The faults ---------------------------------------------------------------


def test_every_sign_has_a_fault_or_follows_from_one():
  signs = {study.own(fault) for fault in planted.FAULTS}
  assert signs == doctor.SIGNS.keys() - {'spread'}
  assert {cause for what, cause in doctor.FOLLOWS if what == 'spread'} <= signs


@pytest.mark.parametrize('fault', [planted.HEALTHY, *planted.FAULTS])
def test_every_fault_is_a_config_that_can_work(fault):
  build.check(planted.run('model', fault, 0, quick=True))


def test_the_warm_start_is_a_config_that_can_work():
  build.check(planted.warm_start())


@pytest.fixture(scope='module')
def trained(model_folder_here, tmp_path_factory):
  """(fault) -> the folder of a run of the tiny policy with the fault."""
  made = {}

  def train(fault):
    if fault not in made:
      folder = tmp_path_factory.mktemp('planted') / fault.replace(', ', '_')
      config = tiny.config(model_folder_here, steps=3)
      config.update_from_flattened_dict(planted.FAULTS.get(fault, {}))
      loop.train(config, folder)
      made[fault] = folder
    return made[fault]

  return train


@pytest.fixture(scope='module')
def model_folder_here(tmp_path_factory):
  return tiny.write_model(tmp_path_factory.mktemp('planted') / 'model')


def test_a_healthy_policy_trips_nothing_of_what_is_planted(trained):
  found = study.told(trained(planted.HEALTHY))
  assert not found.keys() & {'masks', 'engine'}


@pytest.mark.parametrize(
  'fault, sign, cause',
  [
    ('masks', 'masks', None),
    ('engine', 'engine', agreement.TEMPERATURE),
    ('engine, shifted', 'engine', agreement.SHIFT),
    ('engine, retokenized', 'engine', agreement.TURN),
  ],
)
def test_what_is_planted_is_found_at_once_and_by_name(
  trained, fault, sign, cause
):
  folder = trained(fault)
  found = study.told(folder)
  assert found[sign].step == 1
  healthy = study.told(trained(planted.HEALTHY))
  others = {
    name: x for name, x in found.items() if name != sign and not x.cause
  }
  assert others.keys() <= healthy.keys()
  if cause is not None:
    assert agreement.SENTENCES[cause] in found[sign].sentence


def test_tokens_that_were_exposed_are_seen_in_samples_too(trained):
  def longest(fault):
    """By how much the tokens to be trained on are more than the actions."""
    return max(
      sum(one['mask']) - sum(len(x['action']) + 1 for x in one['exchanges'])
      for one in watch.read(trained(fault), watch.SAMPLES)
    )

  assert longest('masks') > 0 >= longest(planted.HEALTHY)


# --- What is concluded --------------------------------------------------------


def told(folder, *names):
  lines = [
    {'step': i + 1, **findings.Finding(name, findings.TRIPS, 'x')._asdict()}
    for i, name in enumerate(names)
  ]
  text = ''.join(json.dumps(line) + '\n' for line in lines)
  (folder / watch.WARNINGS).write_text(text)
  return study.told(folder)


def test_a_fault_has_to_be_told_and_the_rest_explained(tmp_path):
  good = told(tmp_path, 'masks', 'engine')
  assert good['engine'].cause == 'masks' and good['engine'].step == 2
  assert study.verdict('masks', good)
  assert not study.verdict('engine', good)  # that masks trip is unexplained
  assert not study.verdict(planted.HEALTHY, good)
  assert study.verdict(planted.HEALTHY, {})
  assert not study.verdict('masks', {})
  cells = study.row('masks', good)
  assert cells[0] == 'masks' and cells[-1] == 'yes' and 'from masks' in cells[5]
  assert study.row('masks', {})[-1] == 'NO'


def test_the_hot_sampler_reports_what_it_sampled_from():
  """The plan that reaches the engine is the hot one."""
  seen = []

  class Engine:
    def generate(self, requests, sampling):
      seen.append(sampling.temperature)
      raise KeyboardInterrupt

  chat = chat_lib.chat(tiny.tokenizer(), observation_role='user')
  limits = strategies.Limits(2, 6, 24, 24)
  plan = strategies.Plan(1, engine_lib.Sampling(0.8), limits, (0,))
  task = episode.Task('a', 'a?', {})
  with pytest.raises(KeyboardInterrupt):
    planted.heated(Engine(), tiny.letters(), chat, [task], plan)
  assert seen == [pytest.approx(1.2)]
