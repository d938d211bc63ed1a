"""Knobs: how their values move, and that they survive a checkpoint."""

import json

import numpy as np
import pytest
import tiny

from arl.train import build, knobs


def turned(knob, kls, episodes=16):
  """The values of a knob before each batch and after the last."""
  values = [knob.init]
  for kl in kls:
    metrics = {} if kl is None else {'train/ref_kl': kl}
    values.append(knob.update(values[-1], metrics, episodes))
  return values


def test_adaptive_kl_by_hand():
  knob = knobs.adaptive_kl(init=0.5, target=0.1, horizon=160, most=0.2)
  # Errors 0, 0.1, 2 cut to 0.2, -1 cut to -0.2; each of 16 / 160.
  values = turned(knob, [0.1, 0.11, 0.3, 0.0])
  want = [0.5, 0.5, 0.505, 0.505 * 1.02, 0.505 * 1.02 * 0.98]
  np.testing.assert_allclose(values, want, rtol=1e-12)


def test_more_episodes_turn_it_further():
  knob = knobs.adaptive_kl(init=1.0, target=0.1, horizon=100, most=0.2)
  assert turned(knob, [1.0], episodes=10)[-1] == pytest.approx(1.02)
  assert turned(knob, [1.0], episodes=50)[-1] == pytest.approx(1.1)


def test_a_batch_that_shows_no_kl_changes_nothing():
  assert turned(knobs.adaptive_kl(init=0.3), [None, None]) == [0.3] * 3


def test_values_go_through_json_unchanged():
  # Metrics are float32; a value of that type would not be saved.
  knob = knobs.adaptive_kl(init=0.001, horizon=77.0)
  values = turned(knob, [np.float32(0.103), np.float32(0.09)])
  assert {type(value) for value in values} == {float}
  assert json.loads(json.dumps(values)) == values


@pytest.mark.parametrize('init, last', [(0.0, 1.0), (3.0, -1.0), (2.0, 2.0)])
def test_linear_goes_in_equal_steps_and_stays(init, last):
  knob = knobs.linear(init=init, last=last, batches=4)
  values = turned(knob, [None] * 7)
  want = [init + (last - init) * min(i / 4, 1) for i in range(8)]
  np.testing.assert_allclose(values, want, atol=1e-12)
  assert values[-1] == values[-2] == last


def test_linear_ends_where_it_says_whatever_the_rounding():
  values = turned(knobs.linear(init=0.1, last=0.7, batches=7), [None] * 9)
  assert values[-1] == 0.7


def config(**blocks):
  return tiny.config('some/folder', knobs=blocks)


def test_knobs_by_the_columns_that_they_fill():
  block = {'name': 'knobs.linear', 'init': 1.0, 'last': 0.0, 'batches': 2}
  made = build.knobs_of(config(kl_coef=block))
  assert made.keys() == {'kl_coef'}
  assert (
    made['kl_coef'].init == 1.0 and turned(made['kl_coef'], [None])[1] == 0.5
  )


@pytest.mark.parametrize(
  'blocks, kind, message',
  [
    (
      {'kl_coeff': {'name': 'knobs.adaptive_kl'}},
      ValueError,
      "config.knobs.kl_coeff: 'kl_coeff' is no knob; did you mean 'kl_coef'?",
    ),
    (
      {'noise': {'name': 'knobs.adaptive_kl'}},
      ValueError,
      "config.knobs.noise: 'noise' is no knob",
    ),
    (
      {'kl_coef': {'name': 'knobs.adaptive_kl', 'init': 0.0}},
      ValueError,
      'knobs.adaptive_kl: init is 0.0; it must be in (0, inf).',
    ),
    (
      {
        'kl_coef': {
          'name': 'knobs.linear',
          'init': 0,
          'last': 1,
          'batches': 1.5,
        }
      },
      TypeError,
      'knobs.linear: batches is 1.5; it must be a whole number in [1, inf).',
    ),
    (
      {'kl_coef': {'name': 'knobs.adaptive'}},
      ValueError,
      "'knobs.adaptive' names no function",
    ),
  ],
)
def test_knobs_that_are_refused_before_anything_runs(blocks, kind, message):
  with pytest.raises(kind) as caught:
    build.check(config(**blocks))
  assert message in str(caught.value)
