"""What is compiled: a program, a model, a mesh and shapes."""

import math
from typing import NamedTuple

from arl.models import sizes
from arl.train import sharding

MODELS = {
  'tiny': sizes.tiny,
  'tiny-moe': sizes.tiny_moe,
  '0.6B': sizes.qwen3_0_6b,
  '8B': sizes.qwen3_8b,
  '30B-A3B': sizes.qwen3_30b_a3b,
}
# Numbers of a width on a device. A TPU's registers have as many lanes: what is
# split further is not gathered but summed up, which sends twice as much.
NARROWEST = 128
TRAIN, DECODE = PROGRAMS = 'train', 'decode'


class Case(NamedTuple):
  """One program on one mesh.

  Attributes:
    program: 'train' is one update, 'decode' one token of every sequence.
    model: one of MODELS.
    target: a chip, or 'cpu' for fake devices.
    mesh: devices along each of sharding.AXES.
    rows: rows that a device holds of a microbatch, or sequences that it
      samples. With tensor or context axes, those that such a group shares.
    length: tokens of a row, or slots of the cache.
    microbatches: of an update; at least 2, since of one the compiler makes
      another program, without the loop.
    chunk: tokens, on each device, whose logits are held at a time in training.
    layers: how many are compiled; 0 for all of the model's.
  """

  program: str
  model: str
  target: str
  mesh: tuple[int, ...]
  rows: int
  length: int
  microbatches: int = 2
  chunk: int = 1024
  layers: int = 0

  @property
  def chips(self) -> int:
    return math.prod(self.mesh)

  @property
  def axes(self) -> dict[str, int]:
    return dict(zip(sharding.AXES, self.mesh, strict=True))

  @property
  def parts(self) -> int:
    """Of a batch: how many devices have rows of their own."""
    axes = self.axes
    return axes['data'] * axes['fsdp'] * axes['expert']

  @property
  def tokens(self) -> int:
    """That all devices together compute in one run."""
    update = self.length * self.microbatches
    each = update if self.program == TRAIN else 1
    return self.rows * self.parts * each

  @property
  def size(self) -> sizes.Sizes:
    made = MODELS[self.model]()
    return made._replace(layers=self.layers) if self.layers else made

  @property
  def name(self) -> str:
    """For a reader: what it is, without what it is compiled from."""
    axes = 'x'.join(f'{k}{n}' for k, n in self.axes.items() if n > 1) or 'one'
    return (
      f'{self.program} {self.model} {self.target}-{self.chips} {axes}'
      f' {self.rows}x{self.length}'
    )


def mesh(**axes: int) -> tuple[int, ...]:
  """Devices along each axis of a mesh, 1 where it is not named.

  Raises:
    ValueError: an axis that there is not.
  """
  if set(axes) - set(sharding.AXES):
    raise ValueError(
      f'aot: a mesh has the axes {", ".join(sharding.AXES)}, not'
      f' {", ".join(sorted(set(axes) - set(sharding.AXES)))}.'
    )
  return tuple(axes.get(name, 1) for name in sharding.AXES)


def usual_mesh(program: str, model: str, chips: int) -> tuple[int, ...]:
  """A layout that fits: the one that a report takes where none is given.

  Training splits parameters over fsdp, and experts over their own axis, and
  copies them over data where the parts would become too narrow. Sampling
  has whole parameters on each group of tensor, which every token reads; of a
  mixture on each group of expert, whose experts stay whole.
  """
  size = MODELS[model]()
  expert = 1
  if size.mixture:
    expert = min(chips, 8) if model == '30B-A3B' else 2
  if program == TRAIN:
    fsdp = min(chips // expert, max(size.width // NARROWEST, 8))
    return mesh(data=chips // expert // fsdp, fsdp=fsdp, expert=expert)
  tensor = 1 if size.mixture else {'0.6B': 1, '8B': 4}.get(model, 2)
  return mesh(data=chips // expert // tensor, expert=expert, tensor=tensor)


def check(case: Case) -> None:
  """Refuses a case that cannot be compiled.

  Raises:
    ValueError: it has an unknown name, or shapes that do not divide.
  """
  for given, known in ((case.program, PROGRAMS), (case.model, MODELS)):
    if given not in known:
      raise ValueError(f'aot: {given!r} is none of {", ".join(known)}.')
  least = 2 if case.program == TRAIN else 1
  if case.microbatches < least or case.rows < 1 or case.length < 2:
    raise ValueError(
      f'aot: {case.rows} rows of {case.length} in {case.microbatches}'
      f' microbatches; give at least 1, 2 and {least}.'
    )
