"""Bytes that instructions of a compiled program read from and write to HBM.

Each reads what it is given and writes what it makes, with these exceptions: of
what is only sliced the slices are read; what is updated in place moves the
update alone; what lies in fast memory is free.
"""

from collections.abc import Iterable, Sequence

from arl.train.aot import hlo

# Nothing is moved by these, or it is counted where the work is done.
_FREE = {
  'parameter', 'constant', 'tuple', 'get-tuple-element', 'bitcast', 'while',
  'conditional', 'call', 'after-all', 'partition-id', 'replica-id',
  'optimization-barrier', 'add-dependency', 'custom-call',
}  # fmt: skip
_SLICES = {'dynamic-slice', 'slice', 'gather'}
# What these put into their first operand: which operand that is.
_UPDATES = {'dynamic-update-slice': 1, 'scatter': 2}


def of(one: hlo.Instruction, given: Sequence[hlo.Array]) -> float:
  """Of an instruction that is no fusion, given its operands."""
  if one.code in _FREE or one.code.endswith(('-done', '-update')):
    return 0.0
  if one.code in _SLICES:
    return 2 * _far(one.made)
  if one.code in _UPDATES:
    at = _UPDATES[one.code]
    return 2 * _far(given[at : at + 1])
  if one.code.endswith('-start'):
    return 2 * _far(given)
  return _far(given) + _far(one.made)


def of_fusion(program: hlo.Program, inner: hlo.Computation) -> float:
  """Of a fusion, given what it computes."""
  look, root = inner.instructions, inner.result
  into, written = '', _far(root.made)
  while root.code == 'bitcast' and root.operands[0] in look:
    root = look[root.operands[0]]
  if root.code in _UPDATES:
    into = _source(inner, root.operands[0])
    if look[into].code == 'parameter':
      written = _far(look[root.operands[_UPDATES[root.code]]].made)
  elif root.code == 'tuple':
    written = sum(_far(look[name].made) for name in root.operands)
  return written + sum(
    _read(program, inner, one)
    for one in look.values()
    if one.code == 'parameter' and one.name != into
  )


def _source(inner: hlo.Computation, name: str) -> str:
  """Whose numbers an instruction has, through changes of shape alone."""
  one = inner.instructions[name]
  while one.code == 'bitcast':
    one = inner.instructions[one.operands[0]]
  return one.name


def _read(
  program: hlo.Program, inner: hlo.Computation, one: hlo.Instruction
) -> float:
  """What a computation reads of an instruction's result: at most all of it."""
  whole, read = _far(one.made), 0.0
  for user in inner.instructions.values():
    if one.name not in user.operands:
      continue
    if user.code in _SLICES and user.operands[0] == one.name:
      read += _far(user.made)
    elif user.code == 'bitcast':
      read += _read(program, inner, user)
    elif user.code == 'fusion':
      read += _read_within(program, user, one.name)
    else:
      return whole
  return min(read, whole)


def _read_within(
  program: hlo.Program, user: hlo.Instruction, name: str
) -> float:
  """What a fusion within a fusion reads of an operand."""
  nested = program.computations[hlo.called(user, 'calls')[0]]
  return sum(
    _read(program, nested, one)
    for one in nested.instructions.values()
    if one.code == 'parameter'
    and user.operands[int(one.given.strip('()'))] == name
  )


def _far(arrays: Iterable[hlo.Array]) -> float:
  return sum(a.bytes for a in arrays if not a.near)
