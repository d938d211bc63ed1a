"""Accelerators: what their vendor publishes of them, and what follows.

The figures are those of Google's public pages 'TPU v5e', 'TPU v5p' and 'TPU
v6e' in the Cloud TPU documentation: the peak of bfloat16 products, size and
bandwidth of HBM, and the bandwidth of the links between chips. There links are
given for both directions together; here it is what a chip can send. None was
measured here.
"""

from typing import NamedTuple


class Chip(NamedTuple):
  """One chip.

  Attributes:
    flops: bfloat16 products, a second.
    hbm: bytes of memory.
    hbm_rate: bytes a second to and from it.
    link_rate: bytes a second that a chip can send over all its links.
    slices: by number of chips, the shape of the part of a pod that has them.
  """

  flops: float
  hbm: float
  hbm_rate: float
  link_rate: float
  slices: dict[int, str]


_FLAT = {8: '2x4', 16: '4x4', 32: '4x8', 64: '8x8', 128: '8x16', 256: '16x16'}
_CUBES = {
  8: '2x2x2', 16: '2x2x4', 32: '2x4x4', 64: '4x4x4', 128: '4x4x8', 256: '4x8x8',
}  # fmt: skip
CHIPS = {
  'v5e': Chip(197e12, 16 * 2**30, 819e9, 200e9, _FLAT),
  'v5p': Chip(459e12, 95 * 2**30, 2765e9, 600e9, _CUBES),
  'v6e': Chip(918e12, 32 * 2**30, 1600e9, 400e9, _FLAT),
}
CPU = 'cpu'  # fake devices: no figures, so no times


class Roofline(NamedTuple):
  """Seconds that a step must take at least, and would without any overlap.

  Attributes:
    compute: of products at the peak.
    memory: of HBM at its bandwidth.
    network: of collectives at that of the links.
  """

  compute: float
  memory: float
  network: float

  @property
  def least(self) -> float:
    """All three at once: no step is faster."""
    return max(self)

  @property
  def most(self) -> float:
    """One after another; a step that waits for more is slower still."""
    return sum(self)

  @property
  def limit(self) -> str:
    """What bounds the step."""
    return max(self._fields, key=lambda name: getattr(self, name))


def roofline(chip: Chip, flops: float, moved: float, sent: float) -> Roofline:
  """The times of what one device does.

  Args:
    chip: of the device.
    flops: of products.
    moved: bytes to and from HBM.
    sent: bytes to other devices.
  """
  return Roofline(
    flops / chip.flops, moved / chip.hbm_rate, sent / chip.link_rate
  )


def topology(target: str, chips: int) -> str:
  """The name that libtpu has for so many chips, such as 'v5e:2x4'.

  Raises:
    ValueError: an unknown chip, or no such slice.
  """
  if target not in CHIPS:
    raise ValueError(
      f'aot: {target!r} is no target; take one of {", ".join(CHIPS)}, {CPU}.'
    )
  slices = CHIPS[target].slices
  if chips not in slices:
    raise ValueError(
      f'aot: {target} comes in slices of {", ".join(map(str, slices))} chips'
      f' here, not {chips}.'
    )
  return f'{target}:{slices[chips]}'
