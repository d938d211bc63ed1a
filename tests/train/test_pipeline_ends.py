"""However a run ends whose rollouts run ahead, all ends, and says why."""

import contextlib
import os
import signal
import threading
import time

import pytest
import test_rollouts_ahead
import tiny

from arl.rollout import passes
from arl.train import interrupt, loop, state

pytestmark = pytest.mark.usefixtures('compiled_once')


def threads():
  """The threads of rollouts: environments, event loops, engines."""
  ours = ('environment', 'Thread-')
  return {x for x in threading.enumerate() if x.name.startswith(ours)}


@pytest.fixture(autouse=True)
def no_thread_is_left():
  before = threads()
  yield
  assert not threads() - before


def settings(folder, env='test_rollouts_ahead.slow', **keywords):
  made = test_rollouts_ahead.settings(folder)
  made.env = {'name': env, **keywords}
  return made


def unspeakable():
  """Letters whose ninth task has a letter that no token spells."""
  inner = tiny.letters()

  def task(split, index):
    made = inner.task(split, index)
    return made._replace(prompt='z?') if index == 9 else made

  return inner._replace(task=task)


def interrupting():
  """Letters that are silent until somebody has pressed Ctrl-C twice."""
  inner, first, pressed = tiny.letters(), threading.Lock(), threading.Event()

  def step(state, text):
    trained_on = threading.current_thread().name.startswith('environment')
    if trained_on and first.acquire(blocking=False):
      for _ in range(2):
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)
      pressed.set()
    assert not trained_on or pressed.wait(30)
    return inner.step(state, text)

  return inner._replace(step=step)


def test_an_error_of_the_rollouts_is_raised_as_it_was(model_folder, tmp_path):
  config = settings(model_folder, 'test_pipeline_ends.unspeakable')
  with pytest.raises(ValueError, match="cannot encode 'z"):
    loop.train(config, tmp_path / 'run')


def test_environments_that_fail_end_a_run_as_in_the_plain_loop(
  model_folder, tmp_path
):
  config = settings(model_folder, 'tiny.letters', broken='b')
  config.rollout.max_failed = 0.01
  with pytest.raises(RuntimeError, match='episodes failed, more than'):
    loop.train(config, tmp_path / 'run')


def test_an_error_of_the_sampler_is_raised(model_folder, tmp_path, monkeypatch):
  decode, calls = passes.Passes.decode, []

  def breaking(self, rows, *args):
    calls.append(threads())
    if len(rows) and len(calls) > 60:
      raise FloatingPointError('the device is lost')
    return decode(self, rows, *args)

  monkeypatch.setattr(passes.Passes, 'decode', breaking)
  with pytest.raises(RuntimeError, match='the device is lost') as error:
    loop.train(settings(model_folder), tmp_path / 'run')
  assert isinstance(error.value.__cause__, FloatingPointError)


def test_an_error_of_the_learner_ends_the_rollouts(
  model_folder, tmp_path, monkeypatch
):
  seen = []

  def breaking(now):
    seen.append(threads())
    raise ArithmeticError('the learner')

  monkeypatch.setattr(state, 'begin_batch', breaking)
  before = threads()
  with pytest.raises(ArithmeticError, match='the learner'):
    loop.train(settings(model_folder), tmp_path / 'run')
  assert len(seen[0] - before) >= 3  # it was ahead


def test_a_run_that_is_asked_to_stop_stops_and_goes_on(
  model_folder, tmp_path, monkeypatch
):
  asked = iter([False, True])

  @contextlib.contextmanager
  def requested():
    yield lambda: next(asked)

  monkeypatch.setattr(interrupt, 'requested', requested)
  before = threads()
  now = loop.train(settings(model_folder), tmp_path / 'run')
  assert int(now.updates) == 2 * 2 and not threads() - before
  monkeypatch.undo()
  now = loop.train(settings(model_folder), tmp_path / 'run')
  assert int(now.updates) == 2 * test_rollouts_ahead.STEPS


def test_ctrl_c_twice_ends_at_once(model_folder, tmp_path):
  config = settings(model_folder, 'test_pipeline_ends.interrupting')
  with pytest.raises(KeyboardInterrupt):
    loop.train(config, tmp_path / 'run')
