"""Functions of an untrusted source, called one by one.

This is the way to a verdict: the arguments go in, an answer comes out as JSON,
and what is expected stays here, where it is compared. Whatever the source
prints, overrides, exits with or writes to a descriptor, all it can forge is its
own answer.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from arl.sandbox import base, programs, runs

# All that a call needs is there before it waits for what is called.
_CALL = """
import json, os, sys
asked = json.loads(sys.stdin.buffer.read())
answer = os.dup(1)
os.dup2(2, 1)
sys.path.insert(0, '')
names = {'__name__': 'answer'}
exec(compile(asked['source'], 'answer.py', 'exec'), names)
made = json.dumps(names[asked['function']](*asked['arguments']))
sys.stdout.flush()
with open(answer, 'w') as file:
  file.write(made)
"""
# What a pool for calls is made of.
PROGRAM = base.Program((*programs.PYTHON, _CALL))


class Answer(NamedTuple):
  """What a call gave.

  Attributes:
    value: plain data: None, bool, int, float, str, list or dict.
    error: why there is no answer, or ''.
    outcome: how the run went.
  """

  value: Any
  error: str
  outcome: base.Outcome


def call(
  start: runs.Start, source: str, function: str, arguments: Sequence[Any]
) -> Answer:
  """Calls a function that an untrusted source defines, in its own sandbox.

  Args:
    start: `runs.start` or a pool's.
    source: Python.
    function: a name in it.
    arguments: by position; what JSON can hold.

  Raises:
    base.SandboxFailure: the sandbox broke; the source is not to blame.
  """
  asked = {'source': source, 'function': function, 'arguments': arguments}
  program = PROGRAM._replace(stdin=json.dumps(asked).encode())
  outcome = runs.finish(start(program), program)
  if outcome.limit:
    return Answer(None, f'limit: {outcome.limit}', outcome)
  if outcome.code:
    return Answer(None, f'exit status {outcome.code}', outcome)
  try:
    value = json.loads(outcome.stdout, parse_constant=_no_constant)
  except (ValueError, RecursionError) as error:
    return Answer(None, f'no JSON: {error}', outcome)
  return Answer(value, '', outcome)


def _no_constant(name: str) -> None:
  raise ValueError(f'{name} is no JSON')


def same(answer: Any, expected: Any) -> bool:
  """Whether plain data is equal, types too: True is not 1, and 1 is not 1.0."""
  if type(answer) is not type(expected):
    return False
  if isinstance(answer, list):
    return len(answer) == len(expected) and all(map(same, answer, expected))
  if isinstance(answer, dict):
    return answer.keys() == expected.keys() and all(
      same(answer[key], expected[key]) for key in answer
    )
  return answer == expected
