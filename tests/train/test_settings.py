import json

import ml_collections
import pytest
import tiny

from arl.train import settings
from experiments import common


def base():
  return tiny.config('some/folder')


def refusal(config, kind=ValueError):
  with pytest.raises(kind) as error:
    settings.check(config, settings.TRAIN)
  return str(error.value)


def test_the_common_blocks_are_a_whole_config():
  settings.check(common.base(), settings.TRAIN)
  settings.check(base(), settings.TRAIN)


def test_an_unknown_key_and_the_nearest():
  config = base()
  config.rollout.turn_token = 4
  assert refusal(config) == (
    "config.rollout has no key 'turn_token'; did you mean 'turn_tokens'?"
  )


def test_an_unknown_block():
  config = base()
  config.prize = {'name': 'x'}
  assert refusal(config).startswith("config has no key 'prize'; ")


@pytest.mark.parametrize('name', ['seed', 'model.size', 'mesh', 'eval.every'])
def test_a_missing_key(name):
  config = base()
  block, _, key = name.rpartition('.')
  del (config[block] if block else config)[key]
  assert refusal(config) == f'config.{name} is missing; write it out.'


@pytest.mark.parametrize(
  'name, value, kind',
  [
    ('steps', 2.5, 'int'),
    ('steps', True, 'int'),
    ('seed', '0', 'int'),
    ('model.path', None, 'str'),
    ('rollout.temperature', '1', 'float'),
    ('rollout.max_failed', False, 'float'),
  ],
)
def test_a_value_of_another_type(name, value, kind):
  flat = base().to_dict()
  block, _, key = name.rpartition('.')
  (flat[block] if block else flat)[key] = value
  config = ml_collections.ConfigDict(flat)
  assert refusal(config, TypeError) == (
    f'config.{name} is {value!r}; it must be a {kind}.'
  )


def test_a_whole_number_is_a_float():
  flat = base().to_dict()
  flat['rollout']['temperature'] = 1
  settings.check(ml_collections.ConfigDict(flat), settings.TRAIN)


@pytest.mark.parametrize('value', ['grpo', 3])
def test_a_value_in_place_of_a_block(value):
  flat = base().to_dict()
  flat['prompts'] = value
  assert refusal(ml_collections.ConfigDict(flat), TypeError) == (
    f'config.prompts is {value!r}; it must be a block of settings.'
  )


@pytest.mark.parametrize('value', ['grpo.dapo', {'low': 0.2}])
def test_a_block_that_names_nothing(value):
  flat = base().to_dict()
  flat['method'] = value
  assert refusal(ml_collections.ConfigDict(flat)) == (
    'config.method needs a name: the function it means.'
  )


def test_the_digest_stands_for_every_setting():
  config = base()
  first = settings.digest(config)
  assert len(first) == 12 and settings.digest(base()) == first
  config.optimizer.lr = 0.02
  assert settings.digest(config) != first


def resumes(change, step=2, model='abc'):
  """Checks a changed config against the facts of a run."""
  saved = {'config': settings.to_json(base()), 'step': step, 'model': 'abc'}
  config = base()
  with config.unlocked():
    change(config)
  settings.check_resumes(config, model, saved)


def test_what_may_change():
  resumes(lambda c: None)
  resumes(lambda c: c.update(steps=40))
  resumes(lambda c: c.eval.update(every=7))
  resumes(lambda c: c.checkpoint.update(every=1, keep=1))
  resumes(lambda c: c.engine.update(slots=3))
  resumes(lambda c: c.engine.update(urls='http://other:1', folder='other'))


@pytest.mark.parametrize(
  'change, words',
  [
    (lambda c: c.optimizer.update(lr=0.5), 'optimizer.lr: 0.01 -> 0.5'),
    (lambda c: c.update(seed=1), 'seed: 0 -> 1'),
    (lambda c: c.eval.update(tasks=9), 'eval.tasks: 4 -> 9'),
    (lambda c: c.method.update(high=0.3), 'method.high: absent -> 0.3'),
    (
      lambda c: (c.rollout.update(top_k=2), c.mesh.update(data=2)),
      'mesh.data: 1 -> 2; rollout.top_k: 0 -> 2',
    ),
  ],
)
def test_what_may_not(change, words):
  with pytest.raises(ValueError) as error:
    resumes(change)
  assert str(error.value) == (
    f'the workdir holds a run with other settings ({words}); choose another'
    ' workdir, or the settings it has.'
  )


def test_tuples_survive_the_way_through_json():
  config = base()
  config.env = {'name': 'tiny.letters', 'sizes': (1, 2)}
  saved = {'config': settings.to_json(config), 'step': 1, 'model': 'abc'}
  settings.check_resumes(config, 'abc', saved)
  assert json.loads(saved['config'])['env']['sizes'] == [1, 2]


def test_a_key_that_an_older_run_did_not_know():
  saved = base().to_dict()
  del saved['updates']['frozen']
  with pytest.raises(ValueError, match='updates.frozen: absent -> '):
    settings.check_resumes(
      base(), 'abc', {'config': json.dumps(saved), 'step': 1, 'model': 'abc'}
    )


def test_fewer_steps_than_are_done():
  with pytest.raises(ValueError) as error:
    resumes(lambda c: c.update(steps=3), step=4)
  assert str(error.value) == (
    'config.steps is 3, but the workdir holds a checkpoint of step 4; choose'
    ' another workdir, or so many at least.'
  )
  resumes(lambda c: c.update(steps=4), step=4)


def test_a_model_that_is_another_by_now():
  with pytest.raises(ValueError) as error:
    resumes(lambda c: None, model='def')
  assert str(error.value) == (
    'the workdir holds a run that started from other weights (abc -> def); put'
    ' the model it started from back into config.model.path, or choose another'
    ' workdir.'
  )
