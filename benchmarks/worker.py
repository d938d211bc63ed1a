"""The process of one side: does what it is told, one line of JSON at a time.

  PYTHON -m benchmarks.worker SIDE

Says first the versions of its Python and packages. Then each line it reads is
either a row to prepare and run, whose outputs go to a file,

  {"row": "gspo", "shape": [64, 1024], "outputs": "/tmp/outputs.npz"}

or the same with "arrays", a file of what is computed on, in place of a shape,
or how often to measure the row prepared last, whose answer is the shortest:

  {"repeats": 20}

Whatever libraries print goes to stderr.
"""

import importlib
import json
import os
import platform
import sys
import time
from importlib import metadata
from typing import Any, TextIO

import numpy as np

from benchmarks import cases


def _seconds(call) -> float:
  began = time.perf_counter()
  call()
  return time.perf_counter() - began


def _prepare(rows, request) -> cases.Work:
  """The work of a row, once run, so that everything is compiled."""
  if 'arrays' in request:
    with np.load(request['arrays']) as file:
      given = dict(file)
  else:
    given = cases.arrays(*request['shape'])
  work = rows[request['row']](given)
  np.savez(request['outputs'], **work.outputs(work.call()))
  return work


def _serve(rows, requests: TextIO, answers: TextIO) -> None:
  work = None
  for line in requests:
    request = json.loads(line)
    if 'row' in request:
      work = _prepare(rows, request)
    repeats = request.get('repeats', 1)
    answer: dict[str, Any] = {
      'seconds': min(_seconds(work.call) for _ in range(repeats))
    }
    print(json.dumps(answer), file=answers, flush=True)


def main() -> None:
  answers = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
  os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
  side = importlib.import_module(f'benchmarks.sides.{sys.argv[1]}')
  versions = {name: metadata.version(name) for name in side.PACKAGES}
  versions['python'] = platform.python_version()
  rows = side.rows()
  print(json.dumps(versions), file=answers, flush=True)
  _serve(rows, sys.stdin, answers)


if __name__ == '__main__':
  main()
