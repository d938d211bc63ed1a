"""What the sampler's benchmark hands out, and how it tells what it measured."""

import pathlib
from typing import Any, NamedTuple

import jax
import numpy as np

from arl.models import hf, sizes, transformer
from benchmarks import cases, machine, rounds

AIM = '>= 3'
PEERS = {'transformers': 'trl', 'tunix': 'tunix'}  # whose Python has it
_PROMPT = 32  # tokens
_CHECKED = 8  # prompts that all sides continue greedily
_VOCAB = 102  # of the quickstart


class Row(NamedTuple):
  """What is sampled: `new` tokens at most of each of 8 samples a prompt."""

  model: str
  prompts: int
  new: int
  load: str = 'even'

  @property
  def name(self) -> str:
    return f'sampler/{self.model}/{self.prompts}x{cases.GROUP}/{self.load}'


ROWS = (
  Row('quickstart', 1, 64),
  Row('quickstart', 16, 64),
  Row('quickstart', 64, 64),
  Row('quickstart', 16, 64, 'uneven'),
  Row('smollm2', 1, 32),
  Row('smollm2', 16, 8),
  Row('smollm2', 64, 4),
)
QUICK = (Row('quickstart', 1, 16), Row('quickstart', 4, 16, 'uneven'))


def given(row: Row, folder: pathlib.Path, vocab: int) -> dict[str, Any]:
  """What all sides are handed: the folder, prompts and lengths."""
  rng = np.random.default_rng((cases.SEED, row.prompts))
  count, least = row.prompts * cases.GROUP, row.new
  if row.load == 'uneven':
    least = row.new // 4
  lengths = rng.integers(least, row.new + 1, count)
  lengths[0] = row.new
  return {
    'folder': str(folder),
    # 0 is padding to a library.
    'prompts': rng.integers(3, vocab, (row.prompts, _PROMPT), np.int32),
    'group': cases.GROUP,
    'lengths': lengths,
  }


def checked(
  folder: pathlib.Path, vocab: int, scratch: pathlib.Path
) -> tuple[str, dict[str, Any]]:
  """A file of what is continued greedily, and its contents."""
  row = Row('', _CHECKED, 8)
  made = given(row, folder, vocab)
  made |= {'group': 1, 'lengths': np.full(_CHECKED, row.new)}
  return file(scratch / 'greedy.npz', made), made


def file(path: pathlib.Path, arrays: dict[str, Any]) -> str:
  """Writes arrays; gives where."""
  np.savez(path, **arrays)
  return str(path)


def quickstart(scratch: pathlib.Path) -> pathlib.Path:
  """A folder of the quickstart's model, fresh."""
  size = sizes.quick(_VOCAB)
  params = transformer.make(size).init(jax.random.key(cases.SEED))
  # So large that its layers, and not the last token alone, decide on the next.
  params = jax.tree.map(lambda x: 6 * x if x.ndim > 1 else x, params)
  params['embed']['embedding'] *= 3
  hf.save(scratch / 'quickstart', params, size)
  return scratch / 'quickstart'


def told(row: Row, speeds: dict[str, list[float]]) -> list[dict[str, Any]]:
  """The lines of a row: tokens a second, and what arl's are of the others'."""
  lines = []
  for name, values in speeds.items():
    value, ends = rounds.median(values)
    lines.append(line(f'{row.name}/{name}', value, 'tokens/s', '', ends))
    if name != 'arl':
      ratio = [x / y for x, y in zip(speeds['arl'], values)]
      value, ends = rounds.median(ratio)
      lines.append(line(f'{row.name}/over_{name}', value, 'x', AIM, ends))
  return lines


def line(
  name: str, value: Any, unit: str, aim: str, interval=None, **more: Any
) -> dict[str, Any]:
  """A line of the benchmark."""
  made = {'name': name, 'value': value, 'unit': unit, 'aim': aim}
  return {**made, 'seeds': [cases.SEED], 'interval': interval, **more}


def table(lines: list[dict[str, Any]]) -> list[list[str]]:
  """Rows of the results: a peer's ratio and both sides' tokens a second."""
  at = {each['name']: i for i, each in enumerate(lines)}
  body = []
  for row in ROWS:
    for peer in PEERS:
      i = at.get(f'{row.name}/over_{peer}')
      if i is None:
        continue
      ours, theirs, ratio = lines[i - 2 : i + 1]  # as `told` tells them
      low, high = ratio['interval']
      body.append([
        row.model, f'{row.prompts} x {cases.GROUP}', row.load, peer,
        f'{ours["value"]:.0f}', f'{theirs["value"]:.0f}',
        f'{ratio["value"]:.2f} ({low:.2f} to {high:.2f})', AIM,
        'met' if machine.meets(ratio['value'], AIM) else 'missed',
      ])  # fmt: skip
  return body
