import ml_collections
import pytest
import tiny

from arl import types
from arl.train import build, choosing, loading


def changed(**blocks):
  return tiny.config('some/folder', **blocks)


def refusal(config, kind=ValueError):
  with pytest.raises(kind) as error:
    build.check(config)
  return str(error.value)


def test_a_config_that_works():
  made = build.check(changed())
  assert made.needs == {'old_logp'}


@pytest.mark.parametrize(
  'rollout, words',
  [
    ({'top_p': 0.9}, 'temperature=1.0, top_p=0.9, top_k=0'),
    ({'top_k': 40}, 'temperature=1.0, top_p=1.0, top_k=40'),
    ({'temperature': 0.0}, 'temperature=0.0, top_p=1.0, top_k=0'),
  ],
)
def test_sampling_that_the_trainer_cannot_reproduce(rollout, words):
  assert refusal(changed(rollout=rollout)) == (
    f'rollout: {words}: training needs temperature > 0, top_p = 1 and top_k ='
    ' 0, since a truncated distribution is not the one that the trainer'
    ' differentiates; truncate in launch/evaluate.py instead.'
  )


def test_a_mesh_of_more_devices_than_there_are():
  assert refusal(changed(mesh={'data': 3, 'fsdp': 4})) == (
    'mesh: data=3 x fsdp=4 x expert=1 x context=1 x tensor=1 needs 12 devices,'
    ' but there are 8 (cpu); change config.mesh.'
  )


def test_a_microbatch_that_does_not_divide_over_the_mesh():
  assert refusal(changed(mesh={'data': 8})) == (
    'mesh: a microbatch of 4 rows does not divide over 8 devices of data x fsdp'
    ' x expert; make config.updates.microbatch a multiple of 8.'
  )


def test_more_updates_than_groups():
  assert refusal(changed(updates={'per_batch': 5})) == (
    'config.updates.per_batch is 5, but a batch has only 4 groups to share out;'
    ' set it to at most prompts.batch.'
  )


@pytest.mark.parametrize(
  'name',
  [
    'steps',
    'engine.slots',
    'rollout.max_turns',
    'prompts.samples',
    'updates.epochs',
    'updates.max_nonfinite',
    'eval.every',
    'eval.tasks',
    'checkpoint.every',
    'checkpoint.keep',
  ],
)
def test_a_count_of_nothing(name):
  config = changed()
  block, _, key = name.rpartition('.')
  (config[block] if block else config)[key] = 0
  assert refusal(config) == f'config.{name} is 0; it must be at least 1.'


@pytest.mark.parametrize(
  'blocks, words',
  [
    ({'rollout': {'lag': -1}}, 'rollout.lag is -1; it must be 0 or more.'),
    ({'model': {'value_bins': -2}}, 'model.value_bins is -2; it must be 0 or'),
    (
      {'model': {'value_bins': 1}},
      'model.value_bins is 1, a critic that can say one thing only; set it to 2'
      ' or more, or to 0 for a critic of one number.',
    ),
  ],
)
def test_numbers_that_mean_nothing(blocks, words):
  assert refusal(changed(**blocks)).startswith(f'config.{words}')


@pytest.mark.parametrize('share', [-0.1, 1.0])
def test_a_share_of_failures_that_means_nothing(share):
  assert refusal(changed(rollout={'max_failed': share})) == (
    f'config.rollout.max_failed is {share}; it is the share of episodes without'
    ' a grade that is put up with, from 0 to below 1.'
  )


@pytest.mark.parametrize(
  'blocks, wrong, right',
  [
    ({'method': {'name': 'grpo.dappo'}}, 'grpo.dappo', 'grpo.dapo'),
    (
      {'optimizer': {'name': 'optimizers.adam'}},
      'optimizers.adam',
      'optimizers.adamw',
    ),
    ({'prompts': {'select': 'select.vary'}}, 'select.vary', 'select.varied'),
    (
      {'rollout': {'strategy': 'strategies.multiturn'}},
      'strategies.multiturn',
      'strategies.multi_turn',
    ),
  ],
)
def test_a_name_of_nothing_and_the_nearest(blocks, wrong, right):
  said = refusal(changed(**blocks))
  assert said.startswith(f'{wrong!r} names no function: ')
  assert said.endswith(f'; did you mean {right!r}?')


def test_an_environment_of_no_name(model_folder):
  config = tiny.config(model_folder, env={'name': 'tool.make'})
  with pytest.raises(ValueError, match="did you mean 'tools.make'"):
    build.world(config)


@pytest.mark.parametrize(
  'blocks',
  [
    {'method': {'name': 'grpo.dapo', 'hi': 0.3}},
    {'optimizer': {'name': 'optimizers.adamw', 'hi': 0.3}},
  ],
)
def test_a_wrong_hyperparameter_is_pythons_own_error(blocks):
  assert "unexpected keyword argument 'hi'" in refusal(
    changed(**blocks), TypeError
  )


def test_a_number_out_of_range_names_method_and_argument():
  said = refusal(changed(method={'name': 'grpo.dapo', 'low': -0.3}))
  assert said.startswith('grpo.dapo: low is -0.3; it must be in [0, ')


# Methods for the next tests, by their dotted names.


def teacher_reader():
  return types.Method(
    dict, dict, lambda *_: (0, {}), frozenset({'teacher_logp'}), frozenset()
  )


def group_reader():
  return types.Method(
    dict, dict, lambda *_: (0, {}), frozenset(), frozenset({'group'})
  )


def pair_reader():
  return group_reader()._replace(whole=frozenset({'pair'}))


def test_a_method_that_needs_what_nothing_fills():
  assert refusal(changed(method={'name': 'test_build.teacher_reader'})) == (
    "test_build.teacher_reader needs column 'teacher_logp' (log-prob of the"
    ' teacher), which nothing fills in this run; set config.model.teacher to'
    " the teacher's folder."
  )


def test_a_method_whose_groups_a_microbatch_would_cut():
  cut = changed(
    method={'name': 'test_build.group_reader'},
    prompts={'samples': 8},
    updates={'microbatch': 4},
  )
  assert refusal(cut) == (
    'test_build.group_reader compares the 8 rollouts of a prompt in its loss,'
    ' but a microbatch has 4 rows; make config.updates.microbatch a multiple of'
    ' 8, or lower prompts.samples.'
  )


def test_a_method_whose_pairs_a_microbatch_would_cut():
  assert refusal(changed(method={'name': 'test_build.pair_reader'})) == (
    "test_build.pair_reader reads ['pair'] in its loss, which a microbatch"
    ' may cut; compute it in the credit of a term.'
  )


def test_terms_and_objectives_become_methods():
  for name in ('terms.imitation', 'grpo.grpo'):
    block = ml_collections.ConfigDict({'name': name})
    assert isinstance(build.method(block), types.Method)


# --- Models and tokenizers ----------------------------------------------------


def test_a_context_beyond_the_models(model_folder):
  config = tiny.config(model_folder, rollout={'context': 33})
  with pytest.raises(ValueError) as error:
    build.world(config)
  assert str(error.value) == (
    'engine: a context of 33 tokens exceeds the 32 that the model was made for;'
    ' set rollout.context to at most that.'
  )


def test_a_batch_larger_than_the_tasks(model_folder):
  config = tiny.config(model_folder, prompts={'size': 3})
  with pytest.raises(ValueError) as error:
    choosing.task_stream(config, tiny.letters())
  assert str(error.value) == (
    'prompts: a batch of 4 tasks from 3; set prompts.batch to 1 to 3, or raise'
    ' prompts.size.'
  )


def test_only_a_method_with_a_critic_gets_a_value_head(model_folder):
  for name, has in (('ppo.ppo', True), ('grpo.dapo', False)):
    config = tiny.config(model_folder, method={'name': name})
    loaded, _ = loading.load_model(config.model, 0)
    made = build.learner(config, build.check(config), loaded)
    assert ('value_head' in made.state.params) == has
    assert ('ref_logp' in made.others) == has
    assert made.rows == 8
