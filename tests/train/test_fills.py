"""Which columns a run fills, and what is said of one that it does not."""

import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl import columns, types
from arl.methods import compose, grpo, matching
from arl.rollout import (
  answers,
  appo,
  branching,
  conversations,
  demonstrations,
  expert_steps,
  greedy,
  hindsight,
  privileged,
  recorded,
  resets,
  retries,
  search,
  strategies,
  vine,
)
from arl.train import fills


def filled(strategy=strategies.multi_turn, env=None, **blocks):
  config = tiny.config('some/folder', **blocks)
  return fills.filled(config, env or tiny.letters(), strategy)


def method(*needs):
  return types.Method(
    dict, dict, lambda *_: (0, {}), frozenset(needs), frozenset()
  )


def refusal(needs, there):
  with pytest.raises(ValueError) as caught:
    fills.check(method(*needs), 'mine.method', there)
  return str(caught.value)


def test_what_every_run_fills():
  assert filled() == {
    'logp', 'entropy', 'value', 'value_after',
    'old_logp', 'old_entropy', 'old_value', 'ref_logp', 'features',
    'own_logp', 'old_ids', 'old_own_logp',
    'truncated', 'step_of_group', 'rollout_entropy',
    'noise', 'iteration', 'progress', 'sampling_weight',
  }  # fmt: skip


def test_settings_fill_more():
  teacher = filled(model={'teacher': 'some/teacher'})
  assert teacher - filled() == {
    'teacher_logp', 'teacher_entropy', 'teacher_ids', 'teacher_top_logp',
    'teacher_own_logp', 'top_logp', 'reverse_kl', 'forward_kl', 'jsd',
  }  # fmt: skip
  several = filled(model={'teacher': 'one=some/teacher,two=another'})
  assert several ^ teacher == {
    'teacher', 'teacher_logps', 'reverse_kl', 'forward_kl', 'jsd',
  }  # fmt: skip
  said = filled(rollout={'reconsidering': 'wait|hm'})
  assert said - filled() == {'reconsidering'}
  knob = filled(knobs={'kl_coef': {'name': 'knobs.adaptive_kl'}})
  assert knob - filled() == {'kl_coef'}
  bins = filled(model={'value_bins': 8})
  assert bins ^ filled() == {
    'value', 'value_after', 'old_value', 'value_logits', 'old_value_logits',
  }  # fmt: skip
  replay = filled(updates={'routing': 'rollout'})
  assert replay - filled() == {'routed_experts', 'rerouted'}


def test_servers_tell_less():
  one = filled(model={'teacher': 'http://127.0.0.1:1'})
  told = {
    'teacher_logp', 'teacher_ids', 'teacher_top_logp', 'teacher_entropy',
    'top_logp',
  }  # fmt: skip
  assert one - filled() == told
  two = filled(model={'teacher': 'a=http://127.0.0.1:1,b=https://x'})
  assert two - filled() == told | {'teacher', 'teacher_logps'}


def test_environments_fill_more():
  parts = tiny.letters()._replace(parts=lambda text: [0] * len(text))
  assert filled(env=parts) - filled() == {'kind'}
  scores = tiny.letters()._replace(scores_steps=True)
  assert filled(env=scores) - filled() == {'process_rewards'}


@pytest.mark.parametrize(
  'strategy, more, less',
  [
    (greedy.with_baseline, {'baseline'}, set()),
    (answers.with_reference, {'answer'}, {'rollout_entropy'}),
    (demonstrations.beside, {'demonstrated'}, {'rollout_entropy'}),
    (demonstrations.noisy, set(), {'rollout_entropy'}),
    (vine.nine, {'turn_value'}, set()),
    (search.by_critic, {'ranked'}, set()),
    (privileged.told_skill, {'hinted', 'teacher_logp'}, set()),
    (branching.two_answers, {'tree', 'node', 'copies'}, set()),
    (appo.two, {'tree', 'node', 'copies'}, set()),
    (hindsight.told_feedback, {'hindsight_logp'}, set()),
    (resets.srpo, {'tree'}, set()),
    (expert_steps.espo, {'stage'}, set()),
    (retries.r3l, {'pivotal', 'demonstrated'}, {'rollout_entropy'}),
  ],
)
def test_strategies_fill_more_and_less(strategy, more, less):
  assert filled(strategy) - filled() == more
  assert filled() - filled(strategy) == less


def test_tokens_that_a_strategy_names_are_looked_up():
  def told(*_):
    return []

  told.gives = frozenset({'teacher_logp', 'teacher_ids', 'teacher_top_logp'})
  assert filled(told) - filled() == told.gives | {'top_logp'}
  fills.check(compose.method(matching.gkd()), 'matching.gkd', filled(told))


def test_together_they_fill_the_table():
  env = tiny.letters()._replace(
    parts=lambda text: [], scores_steps=True, anchor=str
  )
  blocks = {
    'knobs': {
      'kl_coef': {'name': 'knobs.adaptive_kl'},
      'temperature': {'name': 'knobs.cosine'},
    },
    'updates': {'routing': 'rollout'},
    'rollout': {'reconsidering': 'wait'},
  }
  every = frozenset().union(
    *(
      filled(strategy, env, model={'teacher': t, 'value_bins': b}, **blocks)
      for t in ('t', 'one=t,two=u')
      for strategy in (
        greedy.with_baseline,
        answers.with_reference,
        demonstrations.beside,
        privileged.told_skill,
        recorded.unpaired,
        conversations.with_observations,
        vine.nine,
        search.by_critic,
        branching.two_trees,
        hindsight.told_feedback,
        retries.r3l,
        expert_steps.espo,
      )
      for b in (0, 4)
    )
  )
  wanted = columns.filled_by(
    columns.EXTRA, columns.POLICY, columns.SCORE, columns.LOOP
  )
  assert every == wanted


# What is said of a column that nothing fills.


def test_what_is_there_passes():
  fills.check(method('old_logp', 'noise'), 'mine.method', filled())
  fills.check(method(), 'mine.method', frozenset())


@pytest.mark.parametrize(
  'column, setting',
  [
    ('teacher_logp', "set config.model.teacher to the teacher's folder."),
    (
      'kl_coef',
      "set config.knobs.kl_coef, such as {'name': 'knobs.adaptive_kl', ...}.",
    ),
    ('kind', 'use an environment that tells the parts of an action.'),
    ('process_rewards', 'use an environment that scores steps.'),
    (
      'baseline',
      'set config.rollout.strategy to one that gives it, such as'
      " 'greedy.with_baseline'.",
    ),
    (
      'demonstrated',
      'set config.rollout.strategy to one that gives it, such as'
      " 'demonstrations.beside'.",
    ),
    (
      'answer',
      'set config.rollout.strategy to one that gives it, such as'
      " 'answers.with_reference'.",
    ),
    (
      'routed_experts',
      "set config.updates.routing to 'rollout', for a mixture of experts.",
    ),
    (
      'value_logits',
      'set config.model.value_bins to the bins of the method.',
    ),
    (
      'old_value_logits',
      'set config.model.value_bins to the bins of the method.',
    ),
  ],
)
def test_a_missing_column_names_its_setting(column, setting):
  meaning = columns.COLUMNS[column].meaning
  assert refusal((column, 'old_logp'), filled()) == (
    f'mine.method needs column {column!r} ({meaning}), which nothing fills in'
    f' this run; {setting}'
  )


def test_a_name_that_is_no_column():
  assert refusal(('reflogp',), filled()) == (
    "mine.method needs 'reflogp', which is no column; did you mean 'ref_logp'?"
  )


def test_a_critic_of_one_number_beside_bins():
  said = refusal(('old_value',), filled(model={'value_bins': 4}))
  assert said.endswith(
    'set config.model.value_bins to 0, for a critic of one number.'
  )


def test_entropies_that_no_engine_gave():
  said = refusal(('rollout_entropy',), filled(demonstrations.noisy))
  assert said.endswith(
    'set config.rollout.strategy to one whose tokens the engine samples, such'
    " as 'strategies.multi_turn'."
  )


def test_experts_that_no_engine_reported():
  config = tiny.config('x', updates={'routing': 'rollout'})
  there = fills.filled(config, tiny.letters(), strategies.multi_turn)
  fills.check_replay(config, there)
  with pytest.raises(ValueError) as caught:
    fills.check_replay(config, there - {'routed_experts'})
  assert str(caught.value) == (
    "config.updates.routing is 'rollout', but episodes of"
    ' strategies.multi_turn do not say which experts their tokens went through;'
    " set it to 'own', or choose a rollout.strategy whose tokens the engine"
    ' samples.'
  )
  fills.check_replay(tiny.config('x'), frozenset())


def test_a_teacher_that_a_strategy_keeps_to_itself():
  made = compose.method(grpo.dapo())
  teacher = {'teacher': 'somewhere'}
  strategy = {'strategy': 'appo.two'}
  fills.check_used(made, tiny.config('x', model=teacher, rollout=strategy))
  strategy = {'strategy': 'privileged.told_steps'}
  with pytest.raises(ValueError, match='config.model.teacher is set, but'):
    fills.check_used(made, tiny.config('x', model=teacher, rollout=strategy))


VALUES = {'value', 'value_after', 'old_value'}


def test_every_column_that_a_run_may_lack_names_a_setting():
  fillers = columns.EXTRA, columns.POLICY, columns.SCORE, columns.LOOP
  sure = filled() & filled(demonstrations.noisy, model={'value_bins': 4})
  for name in columns.filled_by(*fillers) - sure - VALUES:
    assert columns.COLUMNS[name].setting, name


# What the loop itself gives.


def given(*needs, step=3, seed=0, shape=(4, 6)):
  return fills.from_loop(
    frozenset(needs), shape, seed=seed, step=step, steps=8, knobs={'kl_coef': 2}
  )


def test_only_what_is_asked_for_is_made():
  assert given() == {} and given('old_logp') == {}
  assert given('progress').keys() == {'progress'}


def test_scalars_are_arrays_of_one_type():
  # Of Python numbers each would be compiled anew.
  made = given('iteration', 'progress', 'kl_coef')
  for name, value in (('iteration', 3), ('progress', 3 / 8), ('kl_coef', 2)):
    assert isinstance(made[name], jnp.ndarray), name
    assert made[name].dtype == jnp.float32 and made[name].shape == ()
    assert float(made[name]) == value


def test_noise_follows_the_seed_and_the_step_alone():
  first = given('noise')['noise']
  assert first.shape == (4, 6) and first.dtype == jnp.float32
  assert first.min() >= 0 and first.max() < 1
  np.testing.assert_array_equal(first, given('noise', 'progress')['noise'])
  for other in (given('noise', step=4), given('noise', seed=1)):
    assert not np.any(first == other['noise'])


@pytest.mark.parametrize(
  'blocks, setting',
  [
    ({'model': {'teacher': 'somewhere'}}, 'model.teacher'),
    ({'model': {'value_bins': 11}}, 'model.value_bins'),
    ({'model': {'critic': 'own'}}, 'model.critic'),
    ({'rollout': {'reconsidering': 'wait'}}, 'rollout.reconsidering'),
    ({'knobs': {'kl_coef': {'name': 'knobs.adaptive_kl'}}}, 'knobs.kl_coef'),
  ],
)
def test_a_setting_that_the_method_does_not_read(blocks, setting):
  config = tiny.config('x', **blocks)
  made = compose.method(grpo.dapo())
  with pytest.raises(ValueError, match=f'config.{setting} is set, but'):
    fills.check_used(made, config)
  fills.check_used(made, tiny.config('x'))
