import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from arl.train import checkpoint, state


def agree(meta):
  del meta


def tree(value=1.0):
  return {'l0': jnp.full(2, 1.0 * value), 'l1': jnp.full([2, 3], 2.0 * value)}


def save(folder, steps, keep=3):
  """Checkpoints of tree(step), each after the one before is written."""
  saved = checkpoint.Checkpoints(folder, keep=keep)
  for step in steps:
    saved.save(step, tree(step), {'name': f'step {step}'})
  saved.close()


def resume(folder, like=None, agree=agree, note=print):
  saved = checkpoint.Checkpoints(folder, keep=3)
  try:
    return saved.resume(tree() if like is None else like, agree, note)
  finally:
    saved.close()


def equal(left, right):
  jax.tree.map(np.testing.assert_array_equal, left, right)


def files(folder, step):
  """The files that hold the arrays of a checkpoint."""
  found = (folder / 'checkpoints' / str(step) / 'state').rglob('d/*')
  return [path for path in found if path.is_file()]


def test_the_newest_comes_back(tmp_path):
  save(tmp_path, [1, 2])
  meta, found = resume(tmp_path)
  assert meta['step'] == 2 and meta['name'] == 'step 2'
  equal(found, tree(2))


def test_a_run_goes_on_as_often_as_it_is_cut(tmp_path):
  save(tmp_path, [1])
  for step in (2, 3, 4):
    notes = []
    meta, found = resume(tmp_path, note=notes.append)
    assert meta['step'] == step - 1 and notes == []
    saved = checkpoint.Checkpoints(tmp_path, keep=3)
    saved.save(step, found, meta)  # with all that it knew, as a run does
    saved.close()
  assert resume(tmp_path)[0]['name'] == 'step 1'


def test_a_fingerprint_sees_every_bit_and_its_place():
  params = {'a': jnp.arange(6.0).reshape(2, 3), 'b': jnp.ones(4, jnp.bfloat16)}
  first = checkpoint.fingerprint(params)
  assert len(first) == 12 and checkpoint.fingerprint(params) == first
  others = [
    {**params, 'a': params['a'].at[1, 2].add(1e-6)},
    {**params, 'a': params['a'][::-1]},
    {**params, 'a': params['a'].reshape(3, 2)},
    {**params, 'b': params['b'].astype(jnp.float32)},
    {'a': params['a'], 'c': params['b']},
    {**params, 'a': params['a'].at[0, 0].set(-0.0)},
  ]
  prints = {first, *map(checkpoint.fingerprint, others)}
  assert len(prints) == 1 + len(others)


def test_no_checkpoint_is_none(tmp_path):
  assert resume(tmp_path) is None


def test_old_ones_are_dropped(tmp_path):
  save(tmp_path, [1, 2, 5, 6], keep=2)
  kept = {path.name for path in (tmp_path / 'checkpoints').iterdir()}
  assert kept == {'5', '6'}


def test_a_training_state_keeps_types_and_places(tmp_path):
  tx = optax.adam(0.1)
  now = state.create({'w': jnp.ones([2, 2], jnp.bfloat16)}, tx)
  now = now._replace(updates=jnp.int32(7))
  fresh = state.create({'w': jnp.zeros([2, 2], jnp.bfloat16)}, tx)
  saved = checkpoint.Checkpoints(tmp_path, keep=1)
  saved.save(1, now, {})
  saved.close()
  _, found = resume(tmp_path, fresh)
  equal(found, now)
  assert jax.tree.map(lambda x: x.dtype, found) == jax.tree.map(
    lambda x: x.dtype, now
  )


@pytest.mark.parametrize(
  'like, words',
  [
    (
      {**tree(), 'l2': jnp.ones(3)},
      "['l2'] is missing there and [[3], 'float32'] in this run",
    ),
    (
      {'l0': jnp.ones(2)},
      "['l1'] is [[2, 3], 'float32'] there and missing in this run",
    ),
    (
      {**tree(), 'l0': jnp.ones(4)},
      "['l0'] is [[2], 'float32'] there and [[4], 'float32'] in this run",
    ),
    (
      {**tree(), 'l0': jnp.ones(2, jnp.bfloat16)},
      "['l0'] is [[2], 'float32'] there and [[2], 'bfloat16'] in this run",
    ),
  ],
  ids=['extra', 'missing', 'shape', 'dtype'],
)
def test_restoring_fills_in_and_casts_nothing(tmp_path, like, words):
  save(tmp_path, [5])
  with pytest.raises(ValueError) as error:
    resume(tmp_path, like)
  assert str(error.value) == (
    f'checkpoint {tmp_path}/checkpoints/5: {words}; resume with the model and'
    ' optimizer it was written with, or choose another workdir.'
  )


def test_an_optimizer_of_another_kind_is_refused(tmp_path):
  params = {'w': jnp.ones(2)}
  saved = checkpoint.Checkpoints(tmp_path, keep=1)
  saved.save(1, state.create(params, optax.sgd(0.1)), {})
  saved.close()
  with pytest.raises(ValueError, match=r'\.count is missing there'):
    resume(tmp_path, state.create(params, optax.adam(0.1)))


def test_facts_of_another_run_stop_before_the_state_is_read(tmp_path):
  save(tmp_path, [1, 2])
  shutil.rmtree(tmp_path / 'checkpoints/2/state')

  def disagree(meta):
    raise ValueError(f'not {meta["name"]}')

  with pytest.raises(ValueError, match='not step 2'):
    resume(tmp_path, agree=disagree)


def cut(path):
  path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGE = {
  'no state': lambda f: shutil.rmtree(f / 'checkpoints/4/state'),
  'no facts': lambda f: shutil.rmtree(f / 'checkpoints/4/meta'),
  'no arrays': lambda f: [path.unlink() for path in files(f, 4)],
  'cut arrays': lambda f: [cut(path) for path in files(f, 4)],
}


@pytest.mark.parametrize('damage', DAMAGE)
def test_an_unreadable_one_gives_way_to_the_one_before(tmp_path, damage):
  save(tmp_path, [2, 4])
  DAMAGE[damage](tmp_path)
  notes = []
  meta, found = resume(tmp_path, note=notes.append)
  assert meta['step'] == 2
  equal(found, tree(2))
  (note,) = notes
  assert note.startswith(
    f'checkpoint {tmp_path}/checkpoints/4 cannot be read: '
  )
  # It is out of the way of the steps to come, and not lost.
  assert (tmp_path / 'unreadable/4').is_dir()
  save(tmp_path, [3, 4])
  meta, found = resume(tmp_path)
  assert meta['step'] == 4
  equal(found, tree(4))


def test_nothing_readable_is_an_error(tmp_path):
  save(tmp_path, [2, 4])
  for step in (2, 4):
    shutil.rmtree(tmp_path / f'checkpoints/{step}/state')
  with pytest.raises(ValueError) as error:
    resume(tmp_path)
  assert str(error.value) == (
    f'none of the checkpoints [4, 2] in {tmp_path}/checkpoints can be read;'
    ' move the folder away to start anew.'
  )
  assert not (tmp_path / 'unreadable').exists()


def test_a_step_is_never_silently_left_unwritten(tmp_path):
  save(tmp_path, [3])
  saved = checkpoint.Checkpoints(tmp_path, keep=3)
  with pytest.raises(ValueError) as error:
    saved.save(2, tree(), {})
  saved.close()
  assert str(error.value) == (
    f'checkpoint {tmp_path}/checkpoints/2 was not written: there is one of step'
    ' 3; resume from it, or choose another workdir.'
  )


def test_an_update_may_follow_at_once(tmp_path):
  overwrite = jax.jit(lambda x: x * 0 - 1, donate_argnums=0)
  w = jnp.arange(1_000_000, dtype=jnp.float32)
  saved = checkpoint.Checkpoints(tmp_path, keep=1)
  saved.save(1, {'w': w}, {})
  w = overwrite(w)
  jax.block_until_ready(w)
  saved.close()
  assert float(w[0]) == -1
  _, found = resume(tmp_path, {'w': w})
  equal(found['w'], np.arange(1_000_000, dtype=np.float32))


def test_a_write_that_failed_is_heard_of(tmp_path):
  save(tmp_path, [1])
  saved = checkpoint.Checkpoints(tmp_path, keep=2)
  with pytest.raises(TypeError, match='not JSON serializable'):
    saved.save(2, tree(), {'facts': object()})
    saved.close()
  meta, _ = resume(tmp_path)
  assert meta['step'] == 1


_WRITER = """
import sys
import jax.numpy as jnp
from arl.train import checkpoint
saved = checkpoint.Checkpoints(sys.argv[1], keep=2)
for step in range(1, 1000):
  saved.save(step, {'w': jnp.full(4_000_000, step, jnp.float32)}, {})
  print(step, flush=True)
"""


def test_a_kill_in_the_middle_of_saving_leaves_a_good_one(tmp_path):
  process = subprocess.Popen(
    [sys.executable, '-c', _WRITER, str(tmp_path)],
    stdout=subprocess.PIPE,
    text=True,
    env={**os.environ, 'JAX_PLATFORMS': 'cpu'},
  )
  # Its third save has begun; wait until one of a later step is in the making.
  while int(process.stdout.readline()) < 3:
    pass
  folder = tmp_path / 'checkpoints'
  unfinished = lambda: [p for p in folder.iterdir() if not p.name.isdigit()]
  deadline = time.monotonic() + 60
  while not unfinished() and time.monotonic() < deadline:
    time.sleep(0.001)
  os.kill(process.pid, signal.SIGKILL)
  assert process.wait() == -signal.SIGKILL
  process.stdout.close()
  meta, found = resume(tmp_path, {'w': jnp.zeros(4_000_000)})
  assert meta['step'] >= 2
  equal(found['w'], np.full(4_000_000, meta['step'], np.float32))
  # And the run goes on from there.
  saved = checkpoint.Checkpoints(tmp_path, keep=2)
  saved.save(meta['step'] + 1, found, {})
  saved.close()
  assert pathlib.Path(folder / str(meta['step'] + 1)).is_dir()
