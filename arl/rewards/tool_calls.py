"""Whether the right tools were called, with the right arguments (ToolRL)."""

import collections
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

MOST = 3.0
_BLOCKS = ('think', 'tool_call', 'response')


class Call(NamedTuple):
  """A call of a tool."""

  name: str
  arguments: Mapping[str, Any]


def read(text: str) -> list[Call] | None:
  """The calls of a completion: JSON, one a line, in one tool_call block.

  Each is {"name": .., "parameters": {..}}. None where there is no block, or a
  line is something else.
  """
  before, _, rest = text.partition('<tool_call>')
  inside, closed, _ = rest.partition('</tool_call>')
  if not closed or len(before) == len(text):
    return None
  try:
    return [_call(line) for line in inside.strip().splitlines()]
  except ValueError:
    return None


def _call(line: str) -> Call:
  made = json.loads(line)
  if not isinstance(made, dict) or not isinstance(made.get('name'), str):
    raise ValueError('a call is an object with a name')
  arguments = made.get('parameters', {})
  if not isinstance(arguments, dict):
    raise ValueError('the parameters are an object')
  return Call(made['name'], arguments)


def overlap(ours: Iterable[str], theirs: Iterable[str]) -> float:
  """What two multisets share, of what they hold together; 1 for two empty."""
  left, right = (collections.Counter(list(each)) for each in (ours, theirs))
  together = (left | right).total()
  return (left & right).total() / together if together else 1.0


def _likeness(ours: Call, theirs: Call) -> float:
  """0 for another tool, else names of arguments that agree, and values."""
  if ours.name != theirs.name:
    return 0.0
  equal = sum(
    key in ours.arguments and _equal(ours.arguments[key], value)
    for key, value in theirs.arguments.items()
  )
  return overlap(ours.arguments, theirs.arguments) + equal


def _equal(ours: Any, theirs: Any) -> bool:
  """Equal as JSON: true is not 1."""
  return json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True)


def correctness(calls: Sequence[Call] | None, golds: Sequence[Call]) -> float:
  """How right calls are, -3 to 3; 0 where none was to be made (ToolRL).

  6 S / S_max - 3, where S is the overlap of the tools' names, and for each
  right call what its match has of it: the overlap of the arguments' names, and
  the number of values that agree. Each call matches one at most, so that S is
  largest.

  arXiv:2504.13958. The paper asks for the best matching; its code takes the
  best left for each right call in turn, which is less where several calls of
  one tool are alike.

  Args:
    calls: those made; None if they cannot be read, which is -3.
    golds: the right ones.
  """
  if not golds:
    return 0.0
  if not calls:
    return -MOST
  likeness = np.array([[_likeness(c, gold) for c in calls] for gold in golds])
  rows, columns = optimize.linear_sum_assignment(likeness, maximize=True)
  names = overlap([c.name for c in calls], [gold.name for gold in golds])
  most = 1 + sum(1 + len(gold.arguments) for gold in golds)
  reached = names + float(likeness[rows, columns].sum())
  return 2 * MOST * reached / most - MOST


def well_formed(text: str, blocks: Sequence[str]) -> bool:
  """Whether a text is these blocks, once each and in this order, on lines.

  Args:
    text: the completion.
    blocks: of think, tool_call and response, those it should have.
  """
  tags = [f'<{slash}{name}>' for name in _BLOCKS for slash in ('', '/')]
  wanted = [f'<{slash}{name}>' for name in blocks for slash in ('', '/')]
  if any(text.count(tag) != (tag in wanted) for tag in tags):
    return False
  pattern = r'\n'.join(f'<{name}>.*?</{name}>' for name in blocks)
  return bool(re.fullmatch(pattern, text.strip(), re.DOTALL))


def tool_rl(text: str, golds: Sequence[Call], response: bool) -> float:
  """Form, 0 or 1, and correctness, -3 to 3 (ToolRL, arXiv:2504.13958).

  Surveys add a term for efficiency, which the publication has not; its term for
  length, off by default, was left out.

  Args:
    text: what the policy wrote.
    golds: the calls it should make.
    response: whether it should answer, too.
  """
  asked = (True, bool(golds), response)
  blocks = [name for name, wanted in zip(_BLOCKS, asked) if wanted]
  return float(well_formed(text, blocks)) + correctness(read(text), golds)


def shaping(
  calls: Sequence[Call | None],
  tools: Iterable[str],
  needed: str = '',
  *,
  bonus: float = 0.1,
  repeat: float = 0.05,
  invalid: float = 0.3,
) -> float:
  """A little for the call that was needed, less for senseless ones.

  `bonus` once if the needed tool was called, less `repeat` for each call that
  equals the one before, less `invalid` for each that cannot be read or names no
  tool; clipped to -0.5 to `bonus`. Surveys describe it, no publication gives a
  formula.

  Args:
    calls: those made, None for one that cannot be read.
    tools: the names that exist.
    needed: the tool that the task cannot do without, or ''.
  """
  known = set(tools)
  made = [call for call in calls if call is not None]
  total = bonus * any(needed and call.name == needed for call in made)
  for before, call in zip(calls, calls[1:]):
    if call and before and call.name == before.name:
      total -= repeat * _equal(before.arguments, call.arguments)
  total -= invalid * sum(c is None or c.name not in known for c in calls)
  return float(np.clip(total, -0.5, bonus))
