"""Reading the text of a compiled program: its computations and instructions.

The text is XLA's HLO after all passes: one program that every device runs, so
shapes are those of a device's part.
"""

import math
import re
from typing import NamedTuple

_BYTES = {
  'pred': 1, 's4': 0.5, 'u4': 0.5, 's8': 1, 'u8': 1, 's16': 2, 'u16': 2,
  'bf16': 2, 'f16': 2, 's32': 4, 'u32': 4, 'f32': 4, 's64': 8, 'u64': 8,
  'f64': 8, 'f8e4m3fn': 1, 'f8e5m2': 1, 'c64': 8, 'c128': 16,
}  # fmt: skip
_ARRAY = re.compile(r'([a-z]\w*)\[([\d,<=]*)\](?:\{([^{}]*)\})?')
_HEADER = re.compile(r'^(ENTRY )?%?([\w.\-]+) \(.*\) -> .*\{$')
_LINE = re.compile(r'^\s+(ROOT )?%?([\w.\-]+) = (.*)$')
_NAMES = re.compile(r'%([\w.\-]+)')


class Array(NamedTuple):
  """A shape.

  Attributes:
    dtype: XLA's name of it.
    sides: of the array.
    near: whether it lies in fast memory beside the cores, not in HBM.
  """

  dtype: str
  sides: tuple[int, ...]
  near: bool = False

  @property
  def bytes(self) -> float:
    return _BYTES.get(self.dtype, 0) * math.prod(self.sides)


class Instruction(NamedTuple):
  """A line of a computation.

  Attributes:
    name: unique in the program.
    code: the operation, as 'dot' or 'all-gather-start'.
    made: the arrays of the result.
    operands: names of instructions.
    given: the text between the operation's parentheses.
    attributes: the text after them.
    root: whether it is the result of the computation.
  """

  name: str
  code: str
  made: tuple[Array, ...]
  operands: tuple[str, ...]
  given: str
  attributes: str
  root: bool


class Computation(NamedTuple):
  """A function of a program: instructions by name, in order."""

  name: str
  instructions: dict[str, Instruction]

  @property
  def result(self) -> Instruction:
    return next(i for i in self.instructions.values() if i.root)


class Program(NamedTuple):
  """Computations by name, and the name of the one that is run."""

  computations: dict[str, Computation]
  entry: str


def parse(text: str) -> Program:
  """The program of an HLO text.

  Raises:
    ValueError: it has no entry.
  """
  computations: dict[str, Computation] = {}
  entry, now = '', None
  for line in text.splitlines():
    header = _HEADER.match(line)
    if header:
      now = Computation(header[2], {})
      computations[now.name] = now
      entry = now.name if header[1] else entry
      continue
    found = _LINE.match(line) if now else None
    if now and found:
      now.instructions[found[2]] = _instruction(found)
  if not entry:
    raise ValueError(
      'hlo: the text has no ENTRY computation; give all that as_text() of a'
      ' compiled program returns.'
    )
  return Program(computations, entry)


def called(instruction: Instruction, keys: str) -> list[str]:
  """The computations that attributes name, such as 'body' or 'calls|to_apply'.

  In the order of the text.
  """
  values = re.findall(
    rf'\b(?:{keys})=(\{{[^}}]*\}}|%?[\w.\-]+)', instruction.attributes
  )
  return [name for value in values for name in re.findall(r'[\w.\-]+', value)]


def arrays(text: str) -> tuple[Array, ...]:
  """The arrays of a type, which may be a tuple of them."""
  made = []
  for dtype, sides, layout in _ARRAY.findall(text):
    if dtype in _BYTES:
      numbers = re.findall(r'\d+', sides)
      near = 'S(1)' in layout
      made.append(Array(dtype, tuple(map(int, numbers)), near))
  return tuple(made)


def group_size(attributes: str, devices: int) -> int:
  """How many devices take part in a collective together.

  Args:
    attributes: of the instruction; `replica_groups` in any of XLA's forms.
    devices: of the program, which an empty list of groups means.
  """
  # Which device stands where in the mesh may come between.
  named = r'replica_groups=mesh\[([^\]]*)\][^{]*\{([^}]*)\}'
  mesh = re.search(named, attributes)
  if mesh:
    axes = {
      name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", mesh[1])
    }
    return math.prod(
      int(part or axes[name])
      for name, part in re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", mesh[2])
    )
  iota = re.search(r'replica_groups=\[(\d+),(\d+)\]<=', attributes)
  if iota:
    return int(iota[2])
  listed = re.search(r'replica_groups=\{\{([\d,]*)\}', attributes)
  return len(listed[1].split(',')) if listed else devices


def _instruction(found: re.Match) -> Instruction:
  root, name, rest = bool(found[1]), found[2], found[3]
  kind, rest = _until_closed(rest) if rest[0] == '(' else rest.split(' ', 1)
  code, _, rest = rest.strip().partition('(')
  given, attributes = _until_closed('(' + rest)
  operands = tuple(_NAMES.findall(given))
  made = arrays(kind)
  return Instruction(name, code, made, operands, given, attributes, root)


def _until_closed(text: str) -> tuple[str, str]:
  """What the first parenthesis encloses, itself included, and the rest."""
  depth = 0
  for at in re.finditer(r'[()]', text):
    depth += 1 if at[0] == '(' else -1
    if not depth:
      return text[: at.end()], text[at.end() :]
  return text, ''
