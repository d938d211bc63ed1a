"""Attempts at the sandbox: none succeeds, and nothing of them is left."""

import functools
import os

import pytest

from arl.sandbox import isolation, runs
from experiments.studies.attempts import (
  base,
  forgeries,
  outside,
  resources,
  world,
)

ATTEMPTS = {**resources.ATTEMPTS, **outside.ATTEMPTS}


@pytest.fixture(scope='module')
def aim(isolated):
  del isolated
  with world.make() as made:
    before = _own()
    yield made
    assert world.left(made) == []
    assert _own() == before


def _own():
  """Descriptors of this process and mounts that it sees."""
  with open('/proc/self/mountinfo') as file:
    return len(os.listdir('/proc/self/fd')), len(file.readlines())


@pytest.mark.parametrize('name', ATTEMPTS)
def test_no_attempt_succeeds(name, aim):
  found, outcome = world.attempt(ATTEMPTS[name], aim)
  assert found == [], outcome
  assert world.left(aim) == []


@pytest.mark.parametrize('name', forgeries.FORGERIES)
def test_no_forgery_passes(name, aim):
  start = functools.partial(runs.start, limits=base.PATIENT)
  found, answer = world.forge(forgeries.FORGERIES[name], start, seed=0)
  assert found == [], answer
  assert world.left(aim) == []


def test_there_are_enough():
  assert len(ATTEMPTS) + len(forgeries.FORGERIES) >= 40


def test_an_honest_answer_passes(aim):
  del aim
  start = functools.partial(runs.start, limits=base.PATIENT)
  honest = base.Forgery('answers', 'def f(numbers): return sum(numbers)')
  assert world.forge(honest, start, seed=0)[0] == ['its answer passed']


def test_a_program_that_escapes_is_seen(aim):
  leaky = base.Attempt('says so', f"print('ESCAPED {aim.secret}')", ('1',))
  found, _ = world.attempt(leaky, aim)
  assert [each.split()[0] for each in found] == ['ESCAPED', 'the', 'ended']


# Those that do no harm. What they find shows that they look.
@pytest.mark.parametrize(
  'name',
  [
    'unix sockets',
    '/proc of the host',
    'pidfd',
    'memory of no process',
    'other sockets',
    'hard link as output',
  ],
)
def test_attempts_succeed_without_isolation(name, monkeypatch):
  bare = isolation.Isolation('', os.geteuid() == 0, None)
  monkeypatch.setattr(isolation, 'find', lambda unsafe: bare)
  with world.make() as made:
    monkeypatch.setattr(world, 'left', lambda world: [])
    found, _ = world.attempt(ATTEMPTS[name], made)
  assert found
