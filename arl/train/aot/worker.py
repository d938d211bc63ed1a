"""Compiles one case in a process of its own: python -m arl.train.aot.worker.

  ... worker CASE OUTPUT PROGRAMS OPTIONS

CASE is a JSON list, OPTIONS what the compiler is told, a JSON object. Compiled
programs are kept as text in the folder PROGRAMS, named by what they are
compiled from: sources that change without changing that cost no compilation.
"""

import gzip
import hashlib
import json
import pathlib
import sys
import time
from typing import Any

import jax

from arl.train.aot import cases, counting, model, programs


def costs(
  case: cases.Case, folder: pathlib.Path, options: dict[str, Any]
) -> dict[str, Any]:
  """The costs of a case, compiled unless the folder has it."""
  lowered = programs.lower(case)
  told = json.dumps([lowered.as_text(), case, options, jax.__version__])
  name = hashlib.sha256(told.encode()).hexdigest()[:24]
  kept, text = folder / f'{name}.json', folder / f'{name}.hlo.gz'
  if not kept.exists():
    folder.mkdir(parents=True, exist_ok=True)
    found, made = compiled(lowered, options)
    text.write_bytes(gzip.compress(made.encode()))
    kept.write_text(json.dumps(found, indent=1))
  found = json.loads(kept.read_text())
  if 'error' in found:
    return found
  read = gzip.decompress(text.read_bytes()).decode()
  return {**found, **counted(case, read)._asdict()}


def compiled(
  lowered: jax.stages.Lowered, options: dict[str, Any]
) -> tuple[dict[str, Any], str]:
  """What the compiler tells of a program, and its text."""
  began, before = time.monotonic(), time.process_time()
  try:
    program = lowered.compile(compiler_options=options or None)
  except jax.errors.JaxRuntimeError as error:
    if 'RESOURCE_EXHAUSTED' not in str(error):
      raise
    return {'error': str(error).splitlines()[0][:300]}, ''
  memory: Any = program.memory_analysis()
  xla: Any = program.cost_analysis() or {}
  found = {
    'arguments': memory.argument_size_in_bytes,
    'outputs': memory.output_size_in_bytes - memory.alias_size_in_bytes,
    'temporaries': memory.temp_size_in_bytes,
    'xla_flops': xla.get('flops', 0.0),
    'xla_bytes': xla.get('bytes accessed', 0.0),
    'seconds': time.monotonic() - began,
    'cpu_seconds': time.process_time() - before,
  }
  return found, program.as_text() or ''


def counted(case: cases.Case, text: str) -> counting.Costs:
  """The costs of an update, or of one round of sampling.

  What a sampler does before and after its loop is no part of a round.
  """
  told = model.spread(case)
  count = lambda rounds: counting.count(
    text, case.chips, told._replace(rounds=rounds)
  )
  if case.program == cases.TRAIN:
    return count(case.microbatches)
  two, one = count(2), count(1)
  made = counting.total([(1, two), (-1, one)])
  return made._replace(chain=two.chain - one.chain, unknown=one.unknown)


def main(argv: list[str]) -> None:
  case, output, folder, options = argv
  given = json.loads(case)
  values: Any = (tuple(x) if isinstance(x, list) else x for x in given)
  result = costs(cases.Case(*values), pathlib.Path(folder), json.loads(options))
  pathlib.Path(output).write_text(json.dumps(result, indent=1))


if __name__ == '__main__':
  main(sys.argv[1:])
