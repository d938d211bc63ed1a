"""Whole runs of methods that read what only the loop can fill."""

import functools
import json

import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl import kinds, levels
from arl.kernels import advantages, aggregations, critics, surrogates
from arl.methods import binding, compose, terms
from arl.train import loop

pytestmark = pytest.mark.usefixtures('compiled_once')
READ = (
  'kind',
  'process_rewards',
  'rollout_entropy',
  'old_entropy',
  'teacher_logp',
  'ref_logp',
  'noise',
  'iteration',
  'progress',
  'kl_coef',
  'truncated',
)


def letters():
  """The letters, with parts, scores of steps and right answers."""
  env = tiny.letters()

  def step(state, text):
    after, turn = env.step(state, text)
    return after, turn._replace(process=0.25)

  return env._replace(
    step=step,
    answer=lambda task: 'aa',
    parts=lambda text: [kinds.ARGUMENTS] * len(text),
    scores_steps=True,
  )


def shown(column):
  """A monitor of a column, or of a scalar on every token."""

  def show(mask, **columns):
    x = jnp.asarray(columns[column]).astype(float)
    return jnp.broadcast_to(
      x.reshape((1,) * (2 - x.ndim) + x.shape), mask.shape
    )

  binding.declare(show, ['mask', column])
  return show


def watching(*columns, **terms_of):
  """A policy gradient that shows columns."""
  return compose.Objective(
    advantage=advantages.group_center,
    surrogate=surrogates.reinforce,
    aggregate=aggregations.token_mean,
    monitors=tuple((name, shown(name)) for name in columns),
    **terms_of,
  )


def everything():
  """It reads all that a run of one strategy fills, and compares in its loss."""

  def compared(logp, group, mask):
    return -levels.mean(logp, group, mask)

  def length(features):
    return jnp.sum(jnp.square(features), axis=-1)

  def by_step(rewards, step_of_group, mask):
    return levels.mean(rewards, step_of_group, mask)

  group = compose.Term(
    'group',
    (('loss', compared),),
    aggregations.token_mean,
    coef=0.01,
    credit=(('by_step', by_step),),
    monitors=(('features', length),),
  )
  critic = compose.Term(
    'critic',
    (('loss', functools.partial(critics.categorical, low=0.0, high=1.0)),),
    aggregations.token_mean,
    credit=(('returns', lambda rewards: rewards),),
  )
  return watching(*READ, terms=(group, critic))


def with_baseline():
  return watching('baseline')


def with_answer():
  return watching('answer', 'kind', 'process_rewards', 'rollout_logp')


def with_demonstrated():
  imitate = terms.imitation()
  return watching('demonstrated', terms=(imitate,))


def run(folder, workdir, method, **blocks):
  config = tiny.config(
    folder,
    steps=2,
    method={'name': f'test_fill_runs.{method}'},
    env={'name': 'test_fill_runs.letters'},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 2},
    checkpoint={'every': 9},
    **blocks,
  )
  now = loop.train(config, workdir)
  assert int(now.updates) == 4 and int(now.skipped) == 0
  results = json.loads((workdir / 'results.json').read_text())
  for part in ('score', 'credit', 'step'):
    assert results['compiles'][part] == 1, part
  return now, tiny.rows(workdir)


@pytest.fixture(scope='module')
def whole(model_folder, tmp_path_factory, compiled_once):
  """(state, metrics) of a run that fills everything."""
  del compiled_once
  folder = tmp_path_factory.mktemp('everything')
  teacher = tiny.write_model(folder / 'teacher', seed=5)
  knob = {'name': 'knobs.adaptive_kl', 'init': 0.1, 'horizon': 32.0}
  return run(
    model_folder,
    folder / 'run',
    'everything',
    model={'teacher': str(teacher), 'value_bins': 5},
    engine={'dtype': 'bfloat16'},
    knobs={'kl_coef': knob},
  )


def shows(rows, name):
  return [row[f'policy/{name}'] for row in rows]


def test_the_loop_says_how_far_it_is(whole):
  _, rows = whole
  np.testing.assert_allclose(shows(rows, 'iteration'), [0, 1], atol=1e-5)
  np.testing.assert_allclose(shows(rows, 'progress'), [0, 0.5], atol=1e-5)


def test_noise_is_drawn_anew_each_batch(whole):
  first, second = shows(whole[1], 'noise')
  assert 0.2 < first < 0.8 and 0.2 < second < 0.8 and first != second


def test_a_knob_is_turned_between_batches(whole):
  _, rows = whole
  assert [row['knobs/kl_coef'] for row in rows] == pytest.approx([0.1, 0.09])
  # No KL yet: off by a whole target, of which 0.2 counts, for 16 episodes.
  assert abs(rows[0]['train/ref_kl']) < 1e-6
  np.testing.assert_allclose(shows(rows, 'kl_coef'), [0.1, 0.09], rtol=1e-6)


def test_the_teacher_is_another_model_than_the_reference(whole):
  rows = whole[1]
  teacher, reference = shows(rows, 'teacher_logp'), shows(rows, 'ref_logp')
  assert all(x < 0 for x in (*teacher, *reference))
  assert abs(teacher[0] - reference[0]) > 1e-4


def test_the_engine_computes_in_another_dtype_and_gives_entropies(whole):
  _, rows = whole
  assert 1e-5 < rows[0]['mismatch/max'] < 0.1
  ours, its = shows(rows, 'old_entropy'), shows(rows, 'rollout_entropy')
  np.testing.assert_allclose(its, ours, atol=0.02)
  assert its[0] != ours[0]


def test_the_environment_tells_parts_and_scores(whole):
  rows = whole[1]
  # A token is part of an argument, or ends its turn.
  assert all(kinds.FORMAT < x < kinds.ARGUMENTS for x in shows(rows, 'kind'))
  assert all(0 < x < 0.25 for x in shows(rows, 'process_rewards'))
  assert all(0 < x < 1 for x in shows(rows, 'truncated'))


def test_critic_and_features_are_there(whole):
  now, rows = whole
  assert now.params['value_head']['bias'].shape == (5,)
  assert np.any(now.params['value_head']['bias'])
  np.testing.assert_allclose(rows[0]['loss/critic'], np.log(5), rtol=0.05)
  assert all(row['group/features'] > 0 for row in rows)


def test_greedy_baselines(model_folder, tmp_path):
  _, rows = run(
    model_folder,
    tmp_path,
    'with_baseline',
    rollout={'strategy': 'greedy.with_baseline'},
  )
  assert all(0 <= x <= 1 for x in shows(rows, 'baseline'))


def test_reference_answers(model_folder, tmp_path):
  _, rows = run(
    model_folder,
    tmp_path,
    'with_answer',
    rollout={'strategy': 'answers.with_reference'},
  )
  assert all(0 < x < 1 for x in shows(rows, 'answer'))
  assert all(x > 0 for x in shows(rows, 'process_rewards'))
  # The engine's score of the answer is the trainer's.
  assert all(row['mismatch/max'] < 1e-5 for row in rows[:1])


def test_demonstrations_beside_samples(model_folder, tmp_path):
  _, rows = run(
    model_folder,
    tmp_path,
    'with_demonstrated',
    rollout={'strategy': 'demonstrations.beside'},
  )
  # Each update has its share of them.
  assert all(0 < x < 1 for x in shows(rows, 'demonstrated'))
  assert rows[0]['mismatch/max'] < 1e-5
  assert rows[0]['train/graded'] == 4 * 4
