r"""An update's speed against the libraries people use, and its memory.

  python -m benchmarks.step [--quick] [--smollm2=FOLDER] \
    [--trl_python=PYTHON] [--tunix_python=PYTHON] [--lines=FILE]

GRPO on rows of prompts and samples, with the model of the quickstart, fresh,
and SmolLM2-135M: forward pass, loss, backward pass, clipping by the norm and
AdamW, in a process of each side, on all cores, in turn. First all compute one
update: where loss or norm of the gradient differ, nothing is timed. Then what
remat and chunks of the head cost and save, and what packing does. Prints a JSON
object a line and, unless --quick, rewrites benchmarks/results/step.md. What is
in --lines is not measured again. Exits 1 if a row failed.
"""

import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import tokenizers
from absl import app

from arl.models import hf
from benchmarks import (
  machine,
  options,
  processes,
  rounds,
  samples,
  setups,
  updates,
)
from experiments.studies import runs

TABLE = pathlib.Path(__file__).parent / 'results' / 'step.md'
AIMS = {'trl': '>= 2', 'tunix': '>= 1.3'}
PEAK_AIM, MEMORY_AIM, TIME_AIM = '>= 0.6', '<= 0.1', '<= 1.15'
_AGREES = 1e-3  # of the loss, which is about 1, and of the gradient's norm
_ROWS = (
  updates.Row('quickstart', 64, 32, 128),
  updates.Row('smollm2', 4, 64, 256),
)
_QUICK = (updates.Row('quickstart', 8, 32, 64),)
# How much memory, and how long: as many rows would take minutes each.
_MEMORY = updates.Row('smollm2', 8, 128, 512)
_TIMES = updates.Row('smollm2', 2, 128, 512)
_QUICK_MEMORY = updates.Row('quickstart', 8, 32, 256)
_EPISODES = {'rows': 64, 'longest': 256}
_POLICIES = 'products', 'attention', 'layer'


class Side:
  """A worker, and the files that it answers with."""

  def __init__(
    self, worker: processes.Worker, scratch: pathlib.Path, name: str
  ):
    self.worker, self.name = worker, name
    self._file = scratch / f'{name}.npz'

  def prepare(self, row: str, given: str) -> dict[str, Any]:
    """Gets a row ready to be timed; gives what it computed."""
    self.worker.ask(row=row, arrays=given, outputs=str(self._file))
    with np.load(self._file) as arrays:
      return dict(arrays)

  def seconds(self) -> float:
    return self.worker.ask(repeats=1)


def in_turn(sides: list[Side], count: int) -> list[list[float]]:
  """Seconds of each side in each round."""
  made = [[side.seconds() for side in sides] for _ in range(count)]
  return [list(each) for each in zip(*made)]


def given(row: updates.Row, folder: pathlib.Path) -> dict[str, Any]:
  """The arrays of a row; the tokens are English where the model reads it.

  Tokens by chance are so unlikely to a trained model that its gradient in
  float32 is a hundredth off that in float64.
  """
  made = updates.given(row, str(folder), hf.read_config(folder).vocab)
  reads = folder / 'tokenizer.json'
  if reads.exists():
    text = (processes.ROOT / 'BUILD.md').read_text(encoding='utf-8')
    ids = tokenizers.Tokenizer.from_file(str(reads)).encode(text).ids
    made['tokens'] = np.resize(ids, made['tokens'].shape).astype(np.int32)
  return made


def differs(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
  """By how much one update of theirs differs from ours."""
  loss = abs(float(theirs['loss']) - float(ours['loss']))
  return max(loss, abs(float(theirs['norm']) / float(ours['norm']) - 1))


def _ratio(name, over, under, aim):
  """The line of a ratio of seconds."""
  value, ends = rounds.median([x / y for x, y in zip(over, under)])
  return samples.line(name, value, 'x', aim, ends)


def _speed(name, tokens, seconds):
  value, ends = rounds.median([tokens / x for x in seconds])
  return samples.line(name, value, 'tokens/s', '', ends)


def peer(
  setup: setups.Setup,
  library: str,
  row: updates.Row,
  folder: pathlib.Path,
  scratch: pathlib.Path,
) -> Iterator[dict[str, Any]]:
  """Lines of one row, of arl and a library; of arl alone where it is 'arl'."""
  python = setup.pythons.get(library) or sys.executable
  arrays = given(row, folder)
  file = samples.file(scratch / 'given.npz', arrays)
  tokens, count = row.rows * row.width, 3 if setup.quick else 7
  start = processes.start
  with start('arl_step', sys.executable, None, scratch) as worker:
    ours = Side(worker, scratch, 'arl')
    if library == 'arl':
      peak = float(ours.prepare('peak', file)['peak'])
      flops = float(ours.prepare('none', file)['flops'])
      (seconds,) = in_turn([ours], count)
      value, ends = rounds.median([flops / x / peak for x in seconds])
      yield samples.line(f'{row.name}/peak', peak / 1e9, 'GFLOP/s', '')
      aim = PEAK_AIM if row.model == 'smollm2' else ''
      yield samples.line(f'{row.name}/share_of_peak', value, '', aim, ends)
      return
    first = ours.prepare('none', file)
    arrays['old_logp'] = first['old_logp']
    file = samples.file(scratch / 'given.npz', arrays)
    with start(f'{library}_step', python, None, scratch) as worker:
      theirs = Side(worker, scratch, library)
      found = differs(first, theirs.prepare('none', file))
      name = f'{row.name}/difference/{library}'
      versions = {'arl': ours.worker.versions, library: worker.versions}
      aim = f'<= {_AGREES}'
      yield samples.line(name, found, '', aim, versions=versions)
      if found > _AGREES:
        return
      ours_took, theirs_took = in_turn([ours, theirs], count)
  yield _speed(f'{row.name}/arl_beside_{library}', tokens, ours_took)
  yield _speed(f'{row.name}/{library}', tokens, theirs_took)
  over = f'{row.name}/over_{library}'
  yield _ratio(over, theirs_took, ours_took, AIMS[library])


def memory(
  setup: setups.Setup,
  policy: str,
  folder: pathlib.Path,
  scratch: pathlib.Path,
) -> Iterator[dict[str, Any]]:
  """Lines of a policy: its temporaries and its time, by those of the plain."""
  big, small = (_MEMORY, _TIMES)
  if setup.quick:
    big = small = _QUICK_MEMORY
  write = lambda row: samples.file(
    scratch / f'{row.rows}.npz', given(row, folder)
  )
  start = processes.start
  with (
    start('arl_step', sys.executable, None, scratch) as one,
    start('arl_step', sys.executable, None, scratch) as other,
  ):
    plain, saving = Side(one, scratch, 'plain'), Side(other, scratch, policy)
    used = [
      float(side.prepare(f'memory/{kind}', write(big))['temporaries'])
      for side, kind in ((plain, 'plain'), (saving, policy))
    ]
    name = f'{big.name}/{policy}'
    for kind, value in zip(('plain_memory', 'memory'), used):
      yield samples.line(f'{name}/{kind}', value / 2**20, 'MiB', '')
    share = used[1] / used[0]
    yield samples.line(f'{name}/of_plain_memory', share, 'x', MEMORY_AIM)
    plain.prepare('plain', write(small))
    saving.prepare(policy, write(small))
    before, after = in_turn([plain, saving], 3 if setup.quick else 5)
  yield _ratio(f'{name}/of_plain_time', after, before, TIME_AIM)


def packing(
  setup: setups.Setup, folder: pathlib.Path, scratch: pathlib.Path
) -> Iterator[dict[str, Any]]:
  """Lines of the same episodes, one a row and packed."""
  rows, longest = _EPISODES['rows'], _EPISODES['longest']
  if setup.quick:
    rows = 16
  found = updates.lengths(rows, longest)
  arrays = {'folder': str(folder), 'lengths': found, 'width': longest}
  file = samples.file(scratch / 'episodes.npz', arrays)
  start = processes.start
  with (
    start('arl_step', sys.executable, None, scratch) as one,
    start('arl_step', sys.executable, None, scratch) as other,
  ):
    padded, packed = (
      Side(one, scratch, 'padded'),
      Side(other, scratch, 'packed'),
    )
    first = padded.prepare('padded', file)
    difference = differs(first, packed.prepare('packed', file))
    name = f'step/quickstart/packing/{rows}'
    aim = f'<= {_AGREES}'
    yield samples.line(f'{name}/difference', difference, '', aim)
    if difference > _AGREES:
      return
    slow, fast = in_turn([padded, packed], 3 if setup.quick else 9)
  tokens = int(found.sum())
  yield _speed(f'{name}/padded', tokens, slow)
  yield _speed(f'{name}/packed', tokens, fast)
  ratio = _ratio(f'{name}/packed_over_padded', slow, fast, '')
  yield {**ratio, 'full': tokens / (rows * longest)}


def parts(setup: setups.Setup, scratch: pathlib.Path):
  """What there is to measure: the name of its last line, and how."""
  quick = samples.quickstart(scratch)
  smollm2: Any = setup.smollm2 and pathlib.Path(setup.smollm2)
  folders = {'quickstart': quick, 'smollm2': smollm2}
  for row in _QUICK if setup.quick else _ROWS:
    folder = folders[row.model]
    for library in ('arl', *AIMS):
      last = 'share_of_peak' if library == 'arl' else f'over_{library}'
      missing = '' if library == 'arl' else setup.missing(library, folder)
      missing = missing or ('' if folder else 'no --smollm2')
      measure = peer, (setup, library, row, folder, scratch)
      yield f'{row.name}/{last}', missing, measure
  big = _QUICK_MEMORY if setup.quick else _MEMORY
  folder = folders[big.model]
  for policy in _POLICIES:
    name = f'{big.name}/{policy}/of_plain_time'
    measure = memory, (setup, policy, folder, scratch)
    yield name, '' if folder else 'no --smollm2', measure
  rows = 16 if setup.quick else _EPISODES['rows']
  name = f'step/quickstart/packing/{rows}/packed_over_padded'
  yield name, '', (packing, (setup, quick, scratch))


def everything(setup: setups.Setup, scratch: pathlib.Path) -> list[dict]:
  """All lines, those kept from before among them."""
  lines = setup.known()
  known = {line['name'] for line in lines if line['value'] is not None}
  for name, missing, (measure, arguments) in parts(setup, scratch):
    if name in known:
      continue
    if missing:
      lines += setup.tell([samples.line(name, None, 'x', '', skipped=missing)])
      continue
    lines += setup.tell(list(measure(*arguments)))
  return lines


def write(lines: list[dict[str, Any]], load: float) -> None:
  """Rewrites the table, with what has to be known to read it."""
  body = []
  versions: dict[str, dict] = {}
  for line in lines:
    versions |= line.get('versions', {})
    if line['value'] is None:
      continue
    ends, aim = line['interval'], line['aim']
    shown = '' if ends is None else ' ({:.3g} to {:.3g})'.format(*ends)
    met = machine.meets(line['value'], aim) if aim else None
    body.append([
      line['name'].removeprefix('step/'), f'{line["value"]:.4g}{shown}',
      line['unit'], aim, {None: '', True: 'met', False: 'missed'}[met],
    ])  # fmt: skip
  about = (
    'Written by `python -m benchmarks.step`; the README of `benchmarks` says'
    ' what the\nrows are. Medians over rounds, with 95 % intervals.'
  )
  table = runs.markdown(('row', 'value', 'unit', 'aim', ''), body)
  machine.write(TABLE, about, table, load, machine.used(versions))


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  load = os.getloadavg()[0]
  with tempfile.TemporaryDirectory() as name:
    lines = everything(setups.from_flags(), pathlib.Path(name))
  if not options.quick():
    write(lines, load)
  failed = [
    line['name']
    for line in lines
    if '/difference' in line['name'] and line['value'] > _AGREES
  ]
  if failed:
    sys.exit(f'updates differ: {", ".join(failed)}')


if __name__ == '__main__':
  options.start(main)
