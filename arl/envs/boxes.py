"""Warm sandboxes for environments, and what functions of a source give in them.

The sandboxes are made when the first program needs one. What small programs did
is remembered, so that a step from one state by one action is the same step each
time, and costs once.
"""

import atexit
import contextlib
import functools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from arl.envs import base
from arl.rewards import outcomes, verdict
from arl.sandbox import base as sandbox
from arl.sandbox import calls, isolation, pool, session

_EACH = """
def each(source, name, arguments):
  names = {'__name__': 'answer'}
  try:
    exec(compile(source, 'answer.py', 'exec'), names)
  except Exception as error:
    return type(error).__name__
  made = []
  for one in arguments:
    try:
      made.append([names[name](*one)])
    except Exception as error:
      made.append(type(error).__name__)
  return made
"""
_READY = 4  # sandboxes that wait
_SMALL = 1 << 12  # bytes of what is remembered of a program, and of what came
_REMEMBERED = 1 << 14  # programs
PYTHON, SHELL = 'python', 'shell'
_PROGRAMS = {PYTHON: calls.PROGRAM, SHELL: session.PROGRAM}


def limits(seconds: float) -> sandbox.Limits:
  """What a program of a task may use."""
  return sandbox.DEFAULT._replace(seconds=seconds, cpu=seconds, output=1 << 16)


def check(unsafe_without_isolation: bool) -> None:
  """Refuses to run untrusted programs where nothing isolates them.

  Raises:
    sandbox.Refused: it says what to install.
  """
  isolation.find(unsafe_without_isolation)


@functools.cache
def of(kind: str, most: sandbox.Limits, unsafe: bool) -> pool.Pool:
  """The sandboxes of a kind, shared by all environments of this process."""
  made = pool.Pool(_PROGRAMS[kind], most, _READY, unsafe)
  atexit.register(made.close)
  return made


@contextlib.contextmanager
def working() -> Iterator[None]:
  """Says of a sandbox that fails that no program is to blame."""
  try:
    yield
  except sandbox.SandboxFailure as error:
    raise base.InfrastructureFailure(f'the sandbox failed: {error}') from error


class _NotKept(Exception):
  """What came of a program, which is much, or was ended by a limit."""


def observe(
  source: str,
  function: str,
  arguments: Sequence[Sequence[Any]],
  seconds: float,
  unsafe: bool,
) -> list[Any]:
  """What a function of an untrusted source gives for arguments.

  All run in one sandbox; where the source breaks that off, each in its own.

  Returns:
    For each [result], or a text: 'timeout', 'SyntaxError', 'it broke off' or
    the name of what was raised. All of it is what the source claims.

  Raises:
    InfrastructureFailure: the sandbox broke.
  """
  asked = json.dumps([source, function, [list(one) for one in arguments]])
  given, outcome = _remembered(_called, asked, seconds, unsafe)
  if isinstance(given, str):  # it is no source, or fails before any call
    return [given] * len(arguments)
  if _fits(given, len(arguments)):
    return given
  if outcome.limit:
    return ['timeout'] * len(arguments)
  if len(arguments) == 1:
    return ['it broke off']
  return [
    observe(source, function, [one], seconds, unsafe)[0] for one in arguments
  ]


def run(
  shell: session.State, command: str, seconds: float, unsafe: bool
) -> tuple[session.State, sandbox.Outcome]:
  """A command in a shell: the shell after it, and how it went.

  Raises:
    InfrastructureFailure: the sandbox broke.
  """
  return _remembered(_commanded, shell, command, seconds, unsafe)


def _remembered(function, *asked) -> Any:
  if len(repr(asked)) > _SMALL:
    return function.__wrapped__(*asked)
  try:
    return function(*asked)
  except _NotKept as made:
    return made.args[0]


def _remembering(function):
  """Remembers what came of programs; what is raised is not kept."""

  @functools.lru_cache(_REMEMBERED)
  def kept(*asked):
    made = function(*asked)
    if made[1].limit or len(repr(made)) > _SMALL:
      raise _NotKept(made)
    return made

  kept.__wrapped__ = function
  return kept


@_remembering
def _called(asked, seconds, unsafe):
  made = of(PYTHON, limits(seconds), unsafe)
  with working():
    whole = calls.call(made.start, _EACH, 'each', json.loads(asked))
  return whole.value, whole.outcome


@_remembering
def _commanded(shell, command, seconds, unsafe):
  made = of(SHELL, limits(seconds), unsafe)
  with working():
    return session.step(made.start, shell, command)


def _fits(value: Any, count: int) -> bool:
  """Whether an answer has the form of `each`; a source may forge it."""
  form = lambda one: isinstance(one, list) and len(one) == 1
  return (
    isinstance(value, list)
    and len(value) == count
    and all(isinstance(one, str) or form(one) for one in value)
  )


def earned(judged: verdict.Verdict) -> float:
  """The score of a verdict.

  Raises:
    InfrastructureFailure: there is none: some test was not run.
  """
  if judged.score is None:
    raise base.InfrastructureFailure(f'no verdict: {judged.detail}')
  return float(judged.score)


def graded(observed: Any, expected: Any) -> str:
  """The name in `arl.rewards.outcomes` of an answer, given the right one."""
  if isinstance(observed, list):
    right = calls.same(observed[0], expected)
    return outcomes.PASSED if right else outcomes.FAILED
  kinds = {'SyntaxError': outcomes.NOT_COMPILED, 'timeout': outcomes.TIMEOUT}
  return kinds.get(observed, outcomes.CRASHED)
