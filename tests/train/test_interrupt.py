import os
import signal
import threading

import pytest

from arl.train import interrupt


@pytest.mark.parametrize('kind', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_a_request(kind):
  with interrupt.requested() as stopped:
    assert not stopped()
    os.kill(os.getpid(), kind)
    assert stopped() and stopped()


def test_a_second_signal_ends_at_once():
  with interrupt.requested() as stopped:
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
      os.kill(os.getpid(), signal.SIGINT)
    assert stopped()


def test_the_handlers_of_before_come_back():
  # A shell that starts tests in the background has them ignore Ctrl-C.
  signal.signal(signal.SIGINT, signal.default_int_handler)
  before = [signal.getsignal(k) for k in (signal.SIGINT, signal.SIGTERM)]
  with pytest.raises(RuntimeError), interrupt.requested():
    assert signal.getsignal(signal.SIGINT) is not before[0]
    raise RuntimeError
  after = [signal.getsignal(k) for k in (signal.SIGINT, signal.SIGTERM)]
  assert after == before
  with pytest.raises(KeyboardInterrupt):
    os.kill(os.getpid(), signal.SIGINT)


def test_one_request_does_not_outlive_its_block():
  with interrupt.requested():
    os.kill(os.getpid(), signal.SIGINT)
  with interrupt.requested() as stopped:
    assert not stopped()


def test_another_thread_takes_no_signals():
  seen = []

  def run():
    before = signal.getsignal(signal.SIGINT)
    with interrupt.requested() as stopped:
      seen.append(stopped())
      seen.append(signal.getsignal(signal.SIGINT) is before)

  thread = threading.Thread(target=run)
  thread.start()
  thread.join()
  assert seen == [False, True]
