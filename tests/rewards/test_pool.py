"""Pools of verifiers: deadlines that hold, and the others go on."""

import asyncio
import os
import pathlib
import threading
import time

import misbehaving
import pytest

from arl.rewards import pool, verdict

linux = pytest.mark.skipif(
  not pathlib.Path('/proc/self/stat').exists(), reason='needs /proc'
)


@pytest.fixture(scope='module')
def made():
  with pool.Pool(2, seconds=10.0) as each:
    yield each


def _alive(pid):
  """Whether a process runs; one that only waits to be reaped does not."""
  try:
    return pathlib.Path(f'/proc/{pid}/stat').read_text().split()[2] != 'Z'
  except OSError:
    return False


def test_a_verdict_comes_back(made):
  assert made.call(misbehaving.right) == verdict.Verdict(1.0, 'scored')
  assert made.call(misbehaving.same, True) == verdict.Verdict(1.0, 'scored')
  assert made.call(misbehaving.half) == verdict.scored(0.5, 'half of it')


@pytest.mark.parametrize(
  'function, detail',
  [
    (misbehaving.raises, 'LookupError: no such gold'),
    (misbehaving.text, 'the verifier returned a str; return a number'),
    (misbehaving.not_a_number, 'the verifier gave nan, which is no score'),
    (misbehaving.dies, "the verifier's process died"),
    (misbehaving.leaves, "the verifier's process died"),
    (misbehaving.recurses, 'RecursionError'),
    (misbehaving.eats, 'MemoryError'),
  ],
)
def test_a_failure_is_no_score(made, function, detail):
  answer = made.call(function)
  assert (answer.score, answer.status) == (None, verdict.ERROR)
  assert answer.detail.startswith(detail)
  assert made.call(misbehaving.right).score == 1.0


def test_what_does_not_end_is_a_timeout_and_the_others_go_on(made):
  stuck = (
    misbehaving.sleeps, misbehaving.spins_in_c, misbehaving.backtracks,
  )  # fmt: skip
  start = time.monotonic()
  waiting = [made.submit(f, seconds=0.5) for f in stuck for _ in range(2)]
  waiting += [made.submit(misbehaving.same, i) for i in range(20)]
  answers = [each.result() for each in waiting]
  assert [a.status for a in answers[:6]] == [verdict.TIMEOUT] * 6
  assert answers[0] == verdict.timeout('no verdict within 0.5 s of work')
  assert [a.score for a in answers[6:]] == list(range(20))
  assert time.monotonic() - start < 60
  assert len(made.pids()) == 2


def test_a_stuck_call_holds_no_other(made):
  stuck = made.submit(misbehaving.sleeps, seconds=1.0)
  start = time.monotonic()
  answers = made.map(misbehaving.same, [(i,) for i in range(200)])
  assert [a.score for a in answers] == list(range(200))
  assert time.monotonic() - start < 20
  assert stuck.result().status == verdict.TIMEOUT


def test_late_calls_give_way_and_still_answer():
  with pool.Pool(2, seconds=10.0) as quick:
    slow = [quick.submit(misbehaving.slow, 2.0, i) for i in range(6)]
    answers = quick.map(misbehaving.same, [(i,) for i in range(50)])
    assert [a.score for a in answers] == list(range(50))
    assert not any(each.done() for each in slow)
    assert [each.result().score for each in slow] == list(range(6))


def test_what_is_slow_is_not_lost_beside_what_does_not_end():
  with pool.Pool(1, seconds=1.0) as small:
    stuck = [small.submit(misbehaving.spins_in_c) for _ in range(3)]
    slow = [small.submit(misbehaving.works, 0.5) for _ in range(3)]
    assert [each.result().score for each in slow] == [1.0] * 3
    assert {each.result().status for each in stuck} == {verdict.TIMEOUT}


def test_too_many_late_calls_are_finished_first(monkeypatch):
  monkeypatch.setattr(pool, '_ASIDE', 2)
  with pool.Pool(1, seconds=10.0) as small:
    slow = [small.submit(misbehaving.slow, 1.5, i) for i in range(4)]
    last = small.submit(misbehaving.right)
    assert last.result().score == 1.0
    assert slow[0].done()
    assert not all(each.done() for each in slow)
    assert [each.result().score for each in slow] == [0, 1, 2, 3]


@linux
def test_what_all_take_is_not_late():
  """Calls that take long, all of them, are never put aside after the first."""
  with pool.Pool(1, seconds=10.0) as small:
    first = small.pids()
    assert small.call(misbehaving.works, 0.3).score == 1.0
    pids = small.pids()
    assert pids != first  # the first was put aside
    answers = small.map(misbehaving.works, [(0.3,)] * 3)
    assert [a.score for a in answers] == [1.0] * 3
    assert small.pids() == pids


@linux
def test_what_others_use_of_the_machine_does_not_count(made):
  """Four times as much work as there are processors, done in turn."""
  count = 4 * (os.cpu_count() or 1)
  with pool.Pool(count, seconds=1.0) as wide:
    answers = wide.map(misbehaving.works, [(0.5,)] * count)
  assert [a.score for a in answers] == [1.0] * count


def test_closing_cancels_what_waits():
  with pool.Pool(1, seconds=1.0) as small:
    first = small.submit(misbehaving.sleeps)
    second = small.submit(misbehaving.sleeps)
    while not first.running():
      time.sleep(0.01)
  assert first.result().status == verdict.ERROR
  assert 'closed' in first.result().detail
  assert second.cancelled()
  with pytest.raises(RuntimeError, match='closed; make another'):
    small.submit(misbehaving.right)


@linux
@pytest.mark.parametrize(
  'function, status, count',
  [
    (misbehaving.has_children, verdict.TIMEOUT, 3),
    (misbehaving.dies_with_children, verdict.ERROR, 1),
  ],
)
def test_no_descendant_survives(made, tmp_path, function, status, count):
  assert made.call(function, str(tmp_path), seconds=0.6).status == status
  pids = [int(p) for p in (tmp_path / 'pids').read_text().split()]
  assert len(pids) == count
  assert not any(_alive(pid) for pid in pids)


def test_for_asyncio(made):
  async def ask():
    ticks = 0

    async def tick():
      nonlocal ticks
      while True:
        await asyncio.sleep(0.01)
        ticks += 1

    ticking = asyncio.create_task(tick())
    answers = await asyncio.gather(
      made.ask(misbehaving.sleeps, seconds=0.5),
      *[made.ask(misbehaving.same, i) for i in range(10)],
    )
    ticking.cancel()
    return answers, ticks

  (stuck, *answers), ticks = asyncio.run(ask())
  assert stuck.status == verdict.TIMEOUT
  assert [a.score for a in answers] == list(range(10))
  assert ticks > 5  # the loop was never blocked


def test_for_threads(made):
  answers = []

  def ask():
    answers.append(made.call(misbehaving.same, 3))

  threads = [threading.Thread(target=ask) for _ in range(8)]
  for each in threads:
    each.start()
  for each in threads:
    each.join()
  assert answers == [verdict.scored(3.0)] * 8


@linux
def test_nothing_is_left_after_close(tmp_path):
  with pool.Pool(2, seconds=30.0, warm=misbehaving.right) as short:
    pids = [*short.pids(), short._workers.nursery.pid]
    short.call(misbehaving.has_children, str(tmp_path), seconds=0.6)
    pids += [int(p) for p in (tmp_path / 'pids').read_text().split()]
  assert not any(_alive(pid) for pid in pids)


@linux
def test_a_worker_killed_while_it_waits_costs_a_call_an_error():
  with pool.Pool(1, seconds=10.0) as short:
    os.kill(short.pids()[0], 9)
    assert short.call(misbehaving.right).status == verdict.ERROR
    assert short.call(misbehaving.right).score == 1.0


@linux
def test_without_its_nursery_a_pool_answers_errors():
  with pool.Pool(1, seconds=10.0) as short:
    os.kill(short._workers.nursery.pid, 9)
    short._workers.nursery.wait()
    assert short.call(misbehaving.right).status == verdict.ERROR
    assert short.call(misbehaving.right).status == verdict.ERROR


def test_what_cannot_be_sent(made):
  with pytest.raises(ValueError, match='cannot be pickled.*plain data'):
    made.submit(lambda: 1.0)
  inside = misbehaving.right
  inside.__module__ = '__main__'
  with pytest.raises(ValueError, match='right is of __main__.*to a module'):
    made.submit(inside)
  inside.__module__ = 'misbehaving'


@pytest.mark.parametrize(
  'count, keywords, name',
  [
    (0, {'seconds': 1.0}, 'count is 0'),
    (1, {'seconds': 0.0}, 'seconds is 0.0'),
    (1, {'seconds': 1.0, 'memory': -1}, 'memory is -1'),
  ],
)
def test_settings_are_checked(count, keywords, name):
  with pytest.raises(ValueError, match=f'Pool: {name}; give more than 0'):
    pool.Pool(count, **keywords)


def test_what_breaks_at_the_start_is_said():
  with pytest.raises(RuntimeError, match='the workers cannot start'):
    pool.Pool(1, seconds=1.0, warm=misbehaving.breaks_at_start)
