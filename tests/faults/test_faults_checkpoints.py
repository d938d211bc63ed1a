"""Known faults of checkpoints and of going on from them."""

import json
import resource
import shutil

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
import tiny

from arl.prompts import curricula
from arl.train import checkpoint, loop

pytestmark = pytest.mark.usefixtures('compiled_once')


def stream(size, batch, seed=0):
  """The curriculum of a run over so many tasks."""
  env = plain.env()
  return curricula.shuffled(curricula.Pool(env, size, batch, seed))


def met(made, state, steps):
  """The ids of each step's tasks; the state goes through JSON at each."""
  told = []
  for step in range(steps):
    tasks, state = made.choose(state, step)
    told.append([task.id for task in tasks])
    state = json.loads(json.dumps(state))
  return told, state


@pytest.mark.parametrize('cut', [2, 3, 5])
def test_56_after_any_step_the_rest_of_the_tasks_follows(cut):
  whole, _ = met(stream(6, 2), stream(6, 2).begin(), 6)
  assert len({id for step in whole[:3] for id in step}) == 6  # an epoch
  begun, state = met(stream(6, 2), stream(6, 2).begin(), cut)
  rest, _ = met(stream(6, 2), state, 6 - cut)
  assert begun + rest == whole and all(rest)


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(
  st.integers(1, 12), st.integers(1, 5), st.integers(0, 30), st.integers(1, 30),
  st.integers(0, 9),
)  # fmt: skip
def test_56_of_any_data_cut_anywhere(size, batch, cut, rest, seed):
  batch = min(batch, size)
  make = lambda: stream(size, batch, seed)
  whole, _ = met(make(), make().begin(), cut + rest)
  _, state = met(make(), make().begin(), cut)
  assert met(make(), state, rest)[0] == whole[cut:]
  assert all(len(step) == batch for step in whole)


ASKED: list[str] = []


def letters():
  """An environment that notes which training tasks are begun."""
  made = tiny.letters()

  def reset(task):
    if task.id.startswith('letters/train'):
      ASKED.append(task.id)
    return made.reset(task)

  return made._replace(reset=reset)


def settings(folder, size=6):
  made = tiny.config(
    folder,
    steps=6,
    env={'name': 'test_faults_checkpoints.letters'},
    prompts={'size': size, 'batch': 2, 'samples': 2},
  )
  made.updates.update(per_batch=1, microbatch=4)
  made.eval.update(every=99, tasks=1, final_tasks=1)
  made.checkpoint.update(every=1, keep=9)
  return made


@pytest.fixture(scope='module')
def run(tmp_path_factory, compiled_once):
  """(model, folder, end, tasks) of an uninterrupted run of two epochs."""
  del compiled_once
  folder = tmp_path_factory.mktemp('faults')
  model = tiny.write_model(folder / 'model')
  ASKED.clear()
  end = loop.train(settings(model), folder / 'run')
  return model, folder / 'run', end, list(ASKED)


def test_56_a_run_cut_at_the_end_of_an_epoch_is_the_run(run, tmp_path):
  (model, whole, end, tasks), cut = run, 3
  folder = tmp_path / 'cut'
  tiny.cut(whole, folder, cut)
  ASKED.clear()
  tiny.same(loop.train(settings(model), folder), end)
  assert len(ASKED) == 4 * (6 - cut)
  assert tasks[4 * cut :] == ASKED
  assert tiny.rows(folder) == tiny.rows(whole)


def test_56_other_data_are_refused(run, tmp_path):
  model, whole, _, _ = run
  tiny.cut(whole, tmp_path / 'cut', 3)
  with pytest.raises(ValueError, match='prompts.size: 6 -> 8'):
    loop.train(settings(model, size=8), tmp_path / 'cut')


def agree(meta):
  del meta


def tree(value):
  return {
    'l0': jnp.full(2, value, jnp.float32),
    'l1': jnp.sin(jnp.arange(3000, dtype=jnp.float32) * value),
    'count': jnp.int32(value),
  }


def written(folder, *steps):
  made = checkpoint.Checkpoints(folder, keep=5)
  for step in steps:
    made.save(step, tree(step), {'name': f'step {step}'})
  made.close()


def resumed(folder, like=None, note=print):
  made = checkpoint.Checkpoints(folder, keep=5)
  try:
    return made.resume(tree(0) if like is None else like, agree, note)
  finally:
    made.close()


def test_58_what_follows_a_save_does_not_reach_it(tmp_path):
  n = 500_000
  overwrite = jax.jit(lambda w: w * 0 - 1, donate_argnums=0)
  w, own = jnp.arange(n, dtype=jnp.float32), np.arange(n, dtype=np.float32)
  made = checkpoint.Checkpoints(tmp_path, keep=1)
  made.save(1, {'w': w, 'own': own}, {})
  w = jax.block_until_ready(overwrite(w))
  own[:] = -1
  made.close()
  _, found = resumed(tmp_path, {'w': w, 'own': own})
  for name in ('w', 'own'):
    np.testing.assert_array_equal(found[name], np.arange(n))


def test_58_a_write_that_fails_is_told_and_costs_no_older_step(tmp_path):
  written(tmp_path, 1)
  made = checkpoint.Checkpoints(tmp_path, keep=5)
  noise = np.random.default_rng(0).random(2**18).astype(np.float32)
  before = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, before[1]))  # as if full
  try:
    words = '(?is)too large.*those before it are whole.*same command'
    with pytest.raises(RuntimeError, match=words):
      made.save(2, {'w': noise}, {})
      made.close()
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
  meta, found = resumed(tmp_path)
  assert meta['step'] == 1
  tiny.same(found, tree(1))


def damage(path, kind, share):
  data = bytearray(path.read_bytes())
  at = min(int(share * len(data)), max(len(data) - 1, 0))
  if kind == 'gone':
    path.unlink()
  elif kind == 'cut':
    path.write_bytes(data[:at])
  elif data:
    data[at] ^= 1 << (at % 8)
    path.write_bytes(data)


@pytest.fixture(scope='module')
def checkpoints(tmp_path_factory):
  """A folder with checkpoints of steps 1 and 2."""
  folder = tmp_path_factory.mktemp('source')
  written(folder, 1, 2)
  return folder


@hypothesis.settings(deadline=None, max_examples=25)
@hypothesis.given(
  st.data(), st.sampled_from(['gone', 'cut', 'bit']), st.floats(0, 1)
)
def test_58_whatever_happens_to_a_file_the_state_is_a_saved_one(
  checkpoints, tmp_path_factory, data, kind, share
):
  """The newest as it was saved, or the one before, with a message."""
  folder = tmp_path_factory.mktemp('damaged')
  shutil.copytree(checkpoints / 'checkpoints', folder / 'checkpoints')
  files = sorted(
    path for path in (folder / 'checkpoints' / '2').rglob('*') if path.is_file()
  )
  path = data.draw(st.sampled_from(files))
  damage(path, kind, share)
  notes = []
  meta, found = resumed(folder, note=notes.append)
  tiny.same(found, tree(meta['step']))
  if meta['step'] == 1:
    assert len(notes) == 1 and '/checkpoints/2 cannot be read' in notes[0]


SAVED = {'l0': [1.0, 1.0], 'l1': [2.0, 2.0], 'step': 5}
WRONG = {
  'more': ({'l2': jnp.ones(2)}, "'l2'"),
  'fewer': ({'l1': None}, "'l1'"),
  'longer': ({'l0': jnp.ones(4)}, "'l0'"),
  'narrower': ({'l0': jnp.ones(2, jnp.bfloat16)}, 'bfloat16'),
}


def arrays(told):
  made = {k: jnp.asarray(x) for k, x in told.items() if x is not None}
  return {'params': made, 'moments': made}


@pytest.mark.parametrize('name', WRONG)
@pytest.mark.parametrize('part', ['params', 'moments'])
def test_59_nothing_is_filled_in_or_cast(tmp_path, name, part):
  made = checkpoint.Checkpoints(tmp_path, keep=1)
  made.save(5, arrays(SAVED), {})
  made.close()
  change, word = WRONG[name]
  like = arrays(SAVED)
  like[part] = arrays({**SAVED, **change})[part]
  with pytest.raises(ValueError, match=word):
    resumed(tmp_path, like)
  _, found = resumed(tmp_path, arrays(SAVED))
  tiny.same(found, arrays(SAVED))


def test_59_any_facts_of_json_are_believed_again(tmp_path):
  """Numbers as keys, tuples and nan are not taken for damage."""
  made = checkpoint.Checkpoints(tmp_path, keep=1)
  facts = {'counts': {9: 1, 10: (2, 3)}, 'nan': float('nan'), 'é': 0.1}
  made.save(1, tree(1), facts)
  made.close()
  notes = []
  meta, _ = resumed(tmp_path, note=notes.append)
  assert meta['counts'] == {'9': 1, '10': [2, 3]} and notes == []


def test_59_what_comes_back_is_what_its_digest_says(tmp_path):
  written(tmp_path, 1, 2)
  saved = json.loads(
    next((tmp_path / 'checkpoints/2/meta').rglob('*')).read_text()
  )
  assert saved['digests'].keys() == saved['manifest'].keys()
  assert len(saved['seal']) == 64
