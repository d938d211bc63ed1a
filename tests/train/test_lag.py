"""Rollouts that lag batches behind, with a knob: who samples, and resuming."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import test_fill_runs
import tiny

from arl.kernels import divergences
from arl.methods import compose, grpo
from arl.rollout import local
from arl.train import evaluation, loop, sharding, state

LAG, STEPS = 2, 5


def pulled():
  """DAPO with a KL to the reference whose coefficient is a knob."""

  def pull(logp, ref_logp, kl_coef):
    return kl_coef * divergences.k3(logp, ref_logp)

  kl = compose.Term('kl', (('loss', pull),), grpo.dapo().aggregate)
  show = ('shown', test_fill_runs.shown('kl_coef'))
  return grpo.dapo()._replace(monitors=(*compose.MONITORS, show), terms=(kl,))


def settings(folder):
  knob = {
    'name': 'knobs.adaptive_kl',
    'init': 0.1,
    'target': 1e-4,
    'horizon': 32.0,
  }
  return tiny.config(
    folder,
    steps=STEPS,
    method={'name': 'test_lag.pulled'},
    rollout={'lag': LAG},
    knobs={'kl_coef': knob},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 2},
    checkpoint={'every': 1, 'keep': 9},
  )


class Watched:
  """Notes what weights an engine is given, and which of them sample."""

  def __init__(self, patch):
    self.given = {}  # version -> each time, the parameters
    self.sampled = {}  # step -> the versions that sampled it
    set_params = local.LocalEngine.set_params
    generate = local.LocalEngine.generate

    def told(engine, params, version):
      copy = jax.device_get(params)
      self.given.setdefault(version, []).append(copy)
      set_params(engine, params, version)

    def asked(engine, requests, sampling):
      samples = generate(engine, requests, sampling)
      kind, step = requests[0].path[:2]
      if kind == evaluation.TRAINING:
        versions = {v for s in samples for v in s.versions.tolist()}
        self.sampled.setdefault(step, set()).update(versions)
      return samples

    patch.setattr(local.LocalEngine, 'set_params', told)
    patch.setattr(local.LocalEngine, 'generate', asked)


@pytest.fixture(scope='module')
def whole(model_folder, tmp_path_factory, compiled_once):
  """(folder, final state, what was watched) of an uninterrupted run."""
  del compiled_once
  folder = tmp_path_factory.mktemp('lag') / 'run'
  with pytest.MonkeyPatch.context() as patch:
    seen = Watched(patch)
    now = loop.train(settings(model_folder), folder)
  return folder, now, seen


def test_a_batch_is_sampled_by_the_parameters_of_two_batches_before(whole):
  _, _, seen = whole
  assert seen.sampled == {0: {0}, 1: {0}, 2: {0}, 3: {1}, 4: {2}}
  # A version is the same bits whenever it is given, and no two are.
  for copies in seen.given.values():
    for copy in copies[1:]:
      tiny.same(copy, copies[0])
  tables = [
    seen.given[v][0]['embed']['embedding'].tobytes() for v in sorted(seen.given)
  ]
  assert len(set(tables)) == len(tables) == STEPS + 1


def test_the_log_probs_of_the_rollout_are_those_of_then(whole):
  rows = tiny.rows(whole[0])
  gaps = [row['mismatch/mean'] for row in rows]
  assert gaps[0] < 1e-5  # the policy has not moved
  assert all(gap > 1e-4 for gap in gaps[1:])


def test_the_state_holds_what_is_to_sample_next(whole):
  _, now, seen = whole
  assert len(now.behind) == LAG
  tiny.same(now.params, seen.given[STEPS][-1])
  for back, params in enumerate(reversed(now.behind), start=1):
    tiny.same(params, seen.given[STEPS - back][0])


@pytest.mark.parametrize('step', [1, 3])
def test_it_resumes_with_the_same_bits(whole, model_folder, tmp_path, step):
  folder, now, _ = whole
  tiny.cut(folder, tmp_path / 'cut', step)
  again = loop.train(settings(model_folder), tmp_path / 'cut')
  tiny.same(again, now)
  assert tiny.rows(tmp_path / 'cut') == tiny.rows(folder)


def test_the_knob_moves_each_batch(whole):
  rows = tiny.rows(whole[0])
  values = [row['knobs/kl_coef'] for row in rows]
  assert values[0] == 0.1 and len(set(values)) == STEPS
  shown = [row['policy/shown'] for row in rows]
  np.testing.assert_allclose(shown, values, rtol=1e-5)


def test_nothing_compiles_anew(whole):
  folder, _, _ = whole
  text = (folder / 'results.json').read_text()
  for part in ('score', 'credit', 'step'):
    assert f'"{part}": 1' in text


# The state alone.


def fresh(lag):
  return state.create({'w': jnp.zeros((4, 2))}, optax.sgd(1.0), lag)


def trained(now, value):
  return now._replace(params={'w': jnp.full((4, 2), float(value))})


@pytest.mark.parametrize('lag', [0, 1, 2, 3])
def test_the_parameters_that_act(lag):
  now, acted = fresh(lag), []
  for batch in range(6):
    acted.append(float(state.acting(now)['w'][0, 0]))
    now = trained(state.begin_batch(now), batch + 1)
  assert acted == [max(batch - lag, 0) for batch in range(6)]


def test_without_lag_there_is_nothing_more_to_keep():
  now = fresh(0)
  assert now.behind == () and state.begin_batch(now) is now
  paths = [
    jax.tree_util.keystr(path)
    for path, _ in jax.tree_util.tree_leaves_with_path(now)
  ]
  assert not any('behind' in path for path in paths)


def test_what_waits_outlives_the_updates():
  mesh = sharding.make_mesh(data=2, fsdp=2)
  now = sharding.shard_params(fresh(2), mesh)

  @functools.partial(jax.jit, donate_argnums=0)
  def step(now):
    moved = jax.tree.map(lambda x: x + 1, now.params)
    return sharding.keep_params(now._replace(params=moved), mesh)

  for batch in range(4):
    acting = state.acting(now)
    now = state.begin_batch(now)
    for _ in range(2):
      now = step(now)
    want = 2.0 * max(batch - 2, 0)
    np.testing.assert_array_equal(acting['w'], np.full((4, 2), want))
  assert step._cache_size() == 1
