"""Files of checkpoints that are missing, cut off, or have a wrong bit."""

import json
import pathlib
import random
import shutil
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from arl.train import build, checkpoint, engines
from experiments.studies import chaos_config, chaos_runs


def _cut(path: pathlib.Path) -> None:
  path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(path: pathlib.Path, share: float = 0.5, bit: int = 0) -> None:
  data = bytearray(path.read_bytes())
  if data:
    data[min(int(share * len(data)), len(data) - 1)] ^= 1 << bit
  path.write_bytes(data)


WAYS: dict[str, Callable[[pathlib.Path], None]] = {
  'gone': pathlib.Path.unlink,
  'cut': _cut,
  'flipped': _flip,
}
TOLD = {
  'gone': 'missing',
  'cut': 'cut in half',
  'flipped': 'wrong in one bit',
}


def largest(folder: pathlib.Path) -> pathlib.Path:
  """The largest file of a checkpoint, or of a part of one."""
  return max(_files(folder), key=lambda path: path.stat().st_size)


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
  return sorted(path for path in folder.rglob('*') if path.is_file())


def _like(case: chaos_runs.Case) -> Any:
  """A state of the shapes, dtypes and places of the case's."""
  config = chaos_config.get_config(
    f'model={case.model},way={case.way},steps={case.steps}'
  )
  method, world = build.check(config), build.world(config)
  engines.close(world.engine)
  return build.learner(config, method, world.loaded).state


def _bits(state: Any) -> list[bytes]:
  return [np.asarray(x).tobytes() for x in jax.tree.leaves(state)]


def _resumed(folder: pathlib.Path, like: Any):
  """(facts, bits, notes) of the newest checkpoint that can be read."""
  notes: list[str] = []
  made = checkpoint.Checkpoints(folder, keep=9)
  try:
    facts, state = made.resume(like, lambda facts: None, notes.append)
  finally:
    made.close()
  return facts, _bits(state), notes


def sweep(case: chaos_runs.Case, flips: int) -> dict[str, int]:
  """Damages every file of a newest checkpoint in every way, one at a time.

  Args:
    case: whose whole run has checkpoints.
    flips: bits of each file that are flipped, each alone.

  Returns:
    `tried`; `noticed`, where the step before was used, with a message;
    `harmless`, where all came back as it was saved; and `wrong`, anything else.
  """
  like, home = _like(case), case.home / 'sweep'
  good = home / 'good'
  shutil.rmtree(home, ignore_errors=True)
  shutil.copytree(case.whole / 'checkpoints', good / 'checkpoints')
  before, newest = chaos_runs.steps(good)[-2:]
  saved = {newest: _resumed(good, like)[:2]}
  hidden = home / 'hidden'
  shutil.move(good / f'checkpoints/{newest}', hidden)
  saved[before] = _resumed(good, like)[:2]
  shutil.move(hidden, good / f'checkpoints/{newest}')
  rng, count = random.Random(0), dict.fromkeys(('noticed', 'harmless'), 0)
  count |= {'wrong': 0, 'tried': 0}
  for file in _files(good / f'checkpoints/{newest}'):
    strikes = [WAYS['gone'], WAYS['cut'], *(_drawn(rng) for _ in range(flips))]
    for strike in strikes:
      folder = home / 'struck'
      shutil.rmtree(folder, ignore_errors=True)
      shutil.copytree(good, folder)
      strike(folder / file.relative_to(good))
      count[_verdict(_resumed(folder, like), saved, newest)] += 1
      count['tried'] += 1
  return count


def _drawn(rng: random.Random) -> Callable[[pathlib.Path], None]:
  share, bit = rng.random(), rng.randrange(8)
  return lambda path: _flip(path, share, bit)


def _verdict(found, saved, newest: int) -> str:
  facts, bits, notes = found
  wanted = saved.get(facts['step'])
  if wanted is None or wanted[1] != bits or not _alike(wanted[0], facts):
    return 'wrong'
  if facts['step'] == newest:
    return 'harmless'
  return 'noticed' if len(notes) == 1 else 'wrong'


def _alike(left: Any, right: Any) -> bool:
  return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
