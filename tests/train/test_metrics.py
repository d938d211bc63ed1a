import contextlib
import errno
import json
import math
import resource
import threading

import jax.numpy as jnp
import numpy as np
import pytest
from tensorboardX.proto import event_pb2

from arl.train import metrics


def logged(workdir, rows):
  with contextlib.closing(metrics.open_log(workdir, tensorboard=False)) as log:
    for step, numbers in rows:
      log.write(step, numbers)


def lines(workdir):
  return (workdir / 'metrics.jsonl').read_text().splitlines()


def steps(workdir):
  return [row['step'] for row in metrics.read(workdir)]


def test_a_line_a_step(tmp_path):
  workdir = tmp_path / 'new' / 'run'
  numbers = {
    'train/success': 0.5,
    'loss/policy': np.float32(0.25),
    'loss/kl': jnp.float32(-1.5),
    'eval/n': 200,
  }
  logged(workdir, [(0, {}), (3, numbers)])
  first, second = map(json.loads, lines(workdir))
  assert first['step'] == 0 and list(first) == ['step', 'wall']
  assert second.pop('wall') >= first['wall'] >= 0
  assert second == {
    'step': 3,
    'train/success': 0.5,
    'loss/policy': 0.25,
    'loss/kl': -1.5,
    'eval/n': 200,
  }
  assert list(second)[1:] == list(numbers)


def test_each_line_is_flushed(tmp_path):
  log = metrics.open_log(tmp_path, tensorboard=False)
  log.write(1, {'train/success': 1.0})
  assert steps(tmp_path) == [1]
  log.close()


def test_nonfinite_stays_strict_json(tmp_path):
  numbers = {
    'loss/a': math.nan,
    'loss/b': 1.0,
    'loss/c': np.float32(-np.inf),
  }
  logged(tmp_path, [(1, numbers)])

  def refuse(constant):
    raise AssertionError(constant)

  row = json.loads(lines(tmp_path)[0], parse_constant=refuse)
  assert row['loss/a'] is None and row['loss/c'] is None
  assert row['nonfinite'] == ['loss/a', 'loss/c']
  (back,) = metrics.read(tmp_path)
  assert math.isnan(back['loss/a']) and math.isnan(back['loss/c'])
  assert back['loss/b'] == 1 and 'nonfinite' not in back


def test_resume_appends_and_the_clock_goes_on(tmp_path):
  path = tmp_path / 'metrics.jsonl'
  path.write_text('{"step": 4, "wall": 100.5, "a/b": 1}\n')
  logged(tmp_path, [(5, {'a/b': 2})])
  rows = metrics.read(tmp_path)
  assert [row['a/b'] for row in rows] == [1, 2]
  assert 100.5 <= rows[1]['wall'] < 110


def test_truncate_then_resume_has_no_step_twice(tmp_path):
  logged(tmp_path, [(step, {'a/b': step}) for step in range(1, 6)])
  metrics.truncate(tmp_path, 3)
  assert steps(tmp_path) == [1, 2, 3]
  logged(tmp_path, [(4, {'a/b': 40}), (5, {'a/b': 50})])
  assert [row['a/b'] for row in metrics.read(tmp_path)] == [1, 2, 3, 40, 50]
  assert [path.name for path in tmp_path.iterdir()] == ['metrics.jsonl']


def test_truncate_keeps_the_nonfinite(tmp_path):
  logged(tmp_path, [(1, {'a/b': math.nan}), (2, {'a/b': 1})])
  before = lines(tmp_path)
  metrics.truncate(tmp_path, 1)
  assert lines(tmp_path) == before[:1]


def test_truncate_before_the_first_line(tmp_path):
  metrics.truncate(tmp_path, 3)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  'half', ['{"step": 3, "wa', '{"step": 3, "wall": 3.0}']
)
def test_a_half_written_line_is_dropped(tmp_path, half):
  path = tmp_path / 'metrics.jsonl'
  whole = '{"step": 1, "wall": 1.0}\n{"step": 2, "wall": 2.0}\n'
  path.write_text(whole + half)
  assert steps(tmp_path) == [1, 2]
  metrics.truncate(tmp_path, 2)
  assert path.read_text() == whole
  path.write_text(whole + half)
  logged(tmp_path, [(3, {'a/b': 1})])
  assert steps(tmp_path) == [1, 2, 3]


def test_only_a_half_written_line(tmp_path):
  (tmp_path / 'metrics.jsonl').write_text('{"st')
  assert metrics.read(tmp_path) == []
  logged(tmp_path, [(0, {'a/b': 1})])
  assert steps(tmp_path) == [0]


@pytest.mark.parametrize('bad', ['{"step": 1, "wa', '3', '{"step": 1}', ''])
def test_a_bad_line_inside_is_an_error(tmp_path, bad):
  path = tmp_path / 'metrics.jsonl'
  path.write_text('{"step": 1, "wall": 1.0}\n' + bad + '\n')
  with pytest.raises(ValueError, match=r'line 2 of .* is not valid'):
    metrics.read(tmp_path)


def test_read_without_a_log(tmp_path):
  with pytest.raises(FileNotFoundError, match='metrics.jsonl'):
    metrics.read(tmp_path)


def test_refused_writes_leave_no_trace(tmp_path):
  log = metrics.open_log(tmp_path, tensorboard=False)
  log.write(2, {'a/b': 1})
  for step in (1, 2):
    with pytest.raises(ValueError, match=f'step {step} after step 2'):
      log.write(step, {'a/b': 1})
  for name in ('loss', 'step', 'a b/c', '/a', 'a/'):
    with pytest.raises(ValueError, match='expected group/name'):
      log.write(3, {'a/b': 1, name: 1})
  for value in ('0.5', [1.0], np.ones(1), True, 1j, None):
    with pytest.raises(TypeError, match='expected one real number'):
      log.write(3, {'a/b': value})
  with pytest.raises(TypeError):
    log.write(3.0, {'a/b': 1})  # type: ignore[arg-type]
  log.write(3, {'a/b': 2})
  log.close()
  assert [row['a/b'] for row in metrics.read(tmp_path)] == [1, 2]


def events(workdir):
  """The TensorBoard events, decoded from their length-prefixed records."""
  found = []
  for path in sorted((workdir / 'tensorboard').iterdir()):
    data = path.read_bytes()
    while data:
      size = int.from_bytes(data[:8], 'little')
      event = event_pb2.Event()
      event.ParseFromString(data[12 : 12 + size])
      found.append(event)
      data = data[16 + size :]
  return found


def test_tensorboard_has_the_scalars_and_purges_on_resume(tmp_path):
  with contextlib.closing(metrics.open_log(tmp_path)) as log:
    for step in (1, 2, 3):
      log.write(step, {'train/success': step / 4})
  metrics.truncate(tmp_path, 2)
  assert [
    (event.step, value.tag, value.simple_value)
    for event in events(tmp_path)
    for value in event.summary.value
  ] == [
    (1, 'train/success', 0.25),
    (2, 'train/success', 0.5),
    (3, 'train/success', 0.75),
  ]
  with contextlib.closing(metrics.open_log(tmp_path)) as log:
    log.write(3, {'train/success': 1.0})
  starts = [
    event.step
    for event in events(tmp_path)
    if event.session_log.status == event_pb2.SessionLog.START
  ]
  assert starts == [0, 3]


def test_tensorboard_has_a_step_as_soon_as_it_is_written(tmp_path):
  log = metrics.open_log(tmp_path)
  names = [f'a/{i}' for i in range(50)]
  log.write(1, dict.fromkeys(names, 0.5))
  told = [value.tag for e in events(tmp_path) for value in e.summary.value]
  log.close()
  assert told == names


def test_a_full_disk_is_an_error_and_no_run_that_hangs(tmp_path):
  log, ends = metrics.open_log(tmp_path), []
  most = (tmp_path / 'metrics.jsonl').stat().st_size + 2**12

  def fill():
    try:
      for step in range(1, 100):
        log.write(step, {f'a/{i}': step / 7 for i in range(50)})
    except OSError as error:
      ends.append(error.errno)

  before = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
  try:
    work = threading.Thread(target=fill, daemon=True)
    work.start()
    work.join(60)
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
  assert ends == [errno.EFBIG]
