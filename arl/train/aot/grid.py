"""The cases of the report: which models, on how many chips, laid out how."""

from typing import NamedTuple

from arl.train.aot import cases, chips

# Each model on a chip that it is trained on in earnest.
HOMES = {'0.6B': 'v5e', '8B': 'v5p', '30B-A3B': 'v5p'}
# How many chips; compiling the larger models takes minutes.
CHIPS = {
  '0.6B': (8, 16, 32, 64, 128, 256),
  '8B': (8, 64, 256),
  '30B-A3B': (8, 64, 256),
}
ROWS, LENGTH = 2, 2048  # of a device in a microbatch
_MIDDLE = 64  # chips on which layouts and lengths are compared
# Sequences that a device, or a group of tensor, samples, whose caches fit.
_SAMPLED = {'0.6B': 16, '8B': 64, '30B-A3B': 16}
_SLOTS = 4096


class Grid(NamedTuple):
  """The cases of a report, by what they show.

  Attributes:
    scaling: weak scaling: more chips, as many tokens on each.
    layouts: one model on as many chips, split in other ways.
    lengths: longer sequences, as many tokens on each chip.
    sampling: a token of every sequence.
  """

  scaling: list[cases.Case]
  layouts: list[cases.Case]
  lengths: list[cases.Case]
  sampling: list[cases.Case]

  def every(self) -> list[cases.Case]:
    """All cases, each once; those that say most come first."""
    ends = [c for c in self.scaling if c.chips in (8, 256)]
    plain = [c for c in ends if not c.size.mixture]
    order = [*plain, *self.sampling, *self.layouts, *ends, *self.lengths]
    order += self.scaling
    return list(dict.fromkeys(order))


def full(tpu: bool) -> Grid:
  """All of the report; on fake CPU devices without libtpu."""
  home = lambda model: HOMES[model] if tpu else chips.CPU
  train = lambda model, n: cases.Case(
    cases.TRAIN,
    model,
    home(model),
    cases.usual_mesh(cases.TRAIN, model, n),
    ROWS,
    LENGTH,
  )
  one = train('8B', _MIDDLE)
  laid = lambda rows, **axes: one._replace(mesh=cases.mesh(**axes), rows=rows)
  return Grid(
    [train(model, n) for model in HOMES for n in CHIPS[model]],
    [
      one,
      laid(2, fsdp=64),
      laid(2 * 8, fsdp=8, tensor=8)._replace(chunk=8 * one.chunk),
      laid(2 * 4, fsdp=16, context=4),
    ],
    [
      one,
      one._replace(rows=1, length=2 * LENGTH),
      laid(1, fsdp=16, context=4)._replace(length=8 * LENGTH),
    ],
    [sampled(model, home(model), 8) for model in HOMES],
  )


def sampled(model: str, target: str, n: int) -> cases.Case:
  """Sampling with the model on so many chips."""
  mesh = cases.usual_mesh(cases.DECODE, model, n)
  rows = _SAMPLED.get(model, 4)
  slots = min(_SLOTS, cases.MODELS[model]().context)
  return cases.Case(cases.DECODE, model, target, mesh, rows, slots, 1)


def quick(tpu: bool) -> Grid:
  """The smallest that has every line."""
  target = 'v5e' if tpu else chips.CPU
  one = cases.Case(
    cases.TRAIN,
    'tiny',
    target,
    cases.usual_mesh(cases.TRAIN, 'tiny', 8),
    ROWS,
    64,
    chunk=32,
  )
  split = one._replace(mesh=cases.mesh(fsdp=4, tensor=2), rows=2 * ROWS)
  return Grid([one], [one, split], [one], [sampled('tiny', target, 8)])
