"""What a compiled program costs a device, counted from its text.

XLA's own cost analysis counts the body of a loop once, however often it runs;
here it counts as often as the loop's condition says.

FLOPs are those of products of matrices alone, a multiplication and an addition
each as one. Bytes are what instructions read from and write to HBM, those of a
fusion once; what lies in fast memory is free. Bytes of collectives are what one
device sends, by ring algorithms, with n devices in a group:

  all-gather          made x (n - 1) / n
  reduce-scatter      given x (n - 1) / n
  all-reduce          2 x given x (n - 1) / n
  all-to-all          given x (n - 1) / n
  collective-permute  given
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from arl.train.aot import hlo, products, traffic

KINDS = (
  'all-gather',
  'reduce-scatter',
  'all-reduce',
  'all-to-all',
  'collective-permute',
)


class Found(NamedTuple):
  """What only a run knows, and what to reckon with.

  Attributes:
    rounds: of the outermost loop whose condition compares with no constant: a
      program of arl has one such, over what is only known when it runs.
    within: rounds of such a loop within another.
  """

  rounds: float = 1
  within: float = 1


NOTHING = Found()


class Costs(NamedTuple):
  """What one device does in one run of a program.

  Attributes:
    flops: of products.
    bytes: to and from HBM.
    sent: bytes of collectives, by kind.
    chain: collectives and products that wait for one another, at most: the
      longest path through what depends on what.
    unknown: loops whose number of rounds the text does not tell.
  """

  flops: float = 0.0
  bytes: float = 0.0
  sent: Mapping[str, float] = {}
  chain: float = 0.0
  unknown: int = 0


def total(parts: Iterable[tuple[float, Costs]]) -> Costs:
  """The sum of costs, each times a number; the longest chain."""
  parts = list(parts)
  sent: dict[str, float] = {}
  for times, part in parts:
    for kind, size in part.sent.items():
      sent[kind] = sent.get(kind, 0.0) + times * size
  return Costs(
    sum(times * part.flops for times, part in parts),
    sum(times * part.bytes for times, part in parts),
    sent,
    max((times * part.chain for times, part in parts), default=0.0),
    sum(part.unknown for _, part in parts),
  )


def count(text: str, devices: int, found: Found = NOTHING) -> Costs:
  """The costs of a program.

  Args:
    text: of the compiled program.
    devices: it was compiled for.
    found: what its text does not tell.
  """
  program = hlo.parse(text)
  return _Counter(program, devices, found).of(program.entry)


class _Counter:
  """Costs of computations, each found once."""

  def __init__(self, program: hlo.Program, devices: int, found: Found):
    self.program, self.devices, self.found = program, devices, found
    self.costs: dict[str, Costs] = {}

  def of(self, name: str) -> Costs:
    if name not in self.costs:
      self.costs[name] = self._sum(self.program.computations[name])
    return self.costs[name]

  def _sum(self, computation: hlo.Computation) -> Costs:
    """Each channel once: a collective that is done in pieces is repeated."""
    parts, seen = [], set()
    depth: dict[str, float] = {}
    for one in computation.instructions.values():
      before = max((depth.get(o, 0.0) for o in one.operands), default=0.0)
      costs = self._one(one, computation)
      channel = re.search(r'channel_id=(\d+)', self._collective(one))
      if channel and channel[1] in seen:
        costs = costs._replace(sent={})
      if channel:
        seen.add(channel[1])
      parts.append((1.0, costs))
      depth[one.name] = before + costs.chain
    chain = max(depth.values(), default=0.0)
    return total(parts)._replace(chain=chain)

  def _collective(self, one: hlo.Instruction) -> str:
    """The attributes, or those of the collective in a fusion of one."""
    if one.code != 'fusion':
      return one.attributes
    inner = self.program.computations[hlo.called(one, 'calls')[0]]
    found = (i for i in inner.instructions.values() if _kind(i.code))
    return next((i.attributes for i in found), '')

  def _one(self, one: hlo.Instruction, within: hlo.Computation) -> Costs:
    look = within.instructions
    if one.code == 'while':
      return self._loop(one, within.name == self.program.entry)
    if one.code == 'conditional':
      names = hlo.called(
        one, 'branch_computations|true_computation|false_computation'
      )
      return max((self.of(n) for n in names), key=lambda c: (c.flops, c.bytes))
    if one.code in ('call', 'async-start'):
      return total((1, self.of(n)) for n in hlo.called(one, 'calls|to_apply'))
    if one.code == 'fusion':
      return self._fusion(one)
    given = [a for o in one.operands if o in look for a in look[o].made]
    flops = products.flops(one, look)
    kind, moved = _kind(one.code), traffic.of(one, given)
    if not kind:
      return Costs(flops, moved, {}, float(flops > 0))
    n = hlo.group_size(one.attributes, self.devices)
    sent = {kind: sent_bytes(kind, given, n)}
    return Costs(0.0, moved, sent, float(n > 1))

  def _loop(self, one: hlo.Instruction, outermost: bool) -> Costs:
    condition = self.program.computations[hlo.called(one, 'condition')[0]]
    rounds = trips(self.program, condition)
    body = self.of(hlo.called(one, 'body')[0])
    told = self.found.rounds if outermost else self.found.within
    made = total([(told if rounds is None else rounds, body)])
    return made._replace(unknown=body.unknown + (rounds is None))

  def _fusion(self, one: hlo.Instruction) -> Costs:
    name = hlo.called(one, 'calls')[0]
    inner, within = self.program.computations[name], self.of(name)
    sent = dict(within.sent)
    if 'all-reduce' in sent and _scattered(inner):
      sent = {'reduce-scatter': sent['all-reduce'] / 2}
    moved = traffic.of_fusion(self.program, inner)
    return within._replace(bytes=moved, sent=sent, chain=min(within.chain, 1.0))


def trips(program: hlo.Program, condition: hlo.Computation) -> float | None:
  """How often a loop runs that counts from 0; None where it is not told.

  The condition is a comparison of the counter with a constant.
  """
  result = condition.result
  if result.code == 'fusion':
    inner = program.computations[hlo.called(result, 'calls')[0]]
    outer = [condition.instructions[o] for o in result.operands]
  else:
    inner, outer = condition, []
  compare = inner.result
  if compare.code != 'compare':
    return None
  for name in compare.operands:
    one = inner.instructions.get(name)
    if one and one.code == 'parameter' and outer:
      one = outer[int(one.given.strip('()'))]
    if one and one.code == 'constant':
      limit = float(one.given.strip('()'))
      return limit + ('direction=LE' in compare.attributes)
  return None


def sent_bytes(kind: str, given: list[hlo.Array], n: int) -> float:
  """What a device sends in a collective, see the head of this file."""
  size = sum(a.bytes for a in given)
  if kind == 'collective-permute':
    return size
  if kind == 'all-gather':
    size *= n  # what is made; a start's result lists its operand too
  return size * (n - 1) / n * (2 if kind == 'all-reduce' else 1)


def _kind(code: str) -> str:
  name = code.removesuffix('-start').removeprefix('ragged-')
  return name if name in KINDS else ''


def _scattered(inner: hlo.Computation) -> bool:
  """Whether a fusion keeps a slice of what it reduces over devices."""
  kept = [i for i in inner.instructions.values() if i.code == 'dynamic-slice']
  for one in kept:
    source = inner.instructions.get(one.operands[0])
    while source and source.code in ('bitcast', 'copy', 'reshape'):
      source = inner.instructions.get(source.operands[0])
    if source and _kind(source.code) == 'all-reduce':
      return True
  return False
