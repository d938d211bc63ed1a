r"""Tokens sampled in a second, against the libraries people use.

  python -m benchmarks.sampler [--quick] [--smollm2=FOLDER] \
    [--trl_python=PYTHON] [--tunix_python=PYTHON] [--lines=FILE]

For 1, 16 and 64 prompts, 8 samples of each at temperature 1 from the model of
the quickstart, fresh, and from SmolLM2-135M, a Hugging Face folder. `even`: all
samples get as many tokens; `uneven`: a fourth to all of them, where the others
compute until the longest has ended. Sides: arl's embedded engine, `generate` of
transformers, and tunix's sampler; each in a process of its own, on all cores,
in turn. First all continue 8 prompts greedily and have to give the same tokens:
where they do not, it is not the same model, the row has failed and nothing is
timed. Prints a JSON object a line and, unless --quick, rewrites
benchmarks/results/sampler.md. What is in --lines is not measured again. A
library whose Python, or a model whose folder, is not given is skipped, which
its lines say. Exits 1 if a row failed.
"""

import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from absl import app

from arl.models import hf
from benchmarks import machine, options, processes, samples, setups
from experiments.studies import runs

TABLE = pathlib.Path(__file__).parent / 'results' / 'sampler.md'


_ROUNDS = {'quickstart': 9, 'smollm2': 5}


def agree(
  sides: dict[str, processes.Worker], file: str, scratch: pathlib.Path
) -> dict[str, float]:
  """Which share of the greedy tokens are arl's, by side."""
  tokens = {}
  for name, worker in sides.items():
    output = scratch / f'{name}.npz'
    worker.ask(row='greedy', arrays=file, outputs=str(output))
    with np.load(output) as arrays:
      tokens[name] = arrays['tokens']
  return {
    name: float(np.mean(found == tokens['arl']))
    for name, found in tokens.items()
  }


def measure(
  row: samples.Row,
  sides: dict[str, processes.Worker],
  file: str,
  scratch: pathlib.Path,
  count: int,
) -> dict[str, list[float]]:
  """Tokens a second of each side in each round."""
  with np.load(file) as arrays:
    tokens = int(arrays['lengths'].sum())
  made: dict[str, list[float]] = {name: [] for name in sides}
  for name, worker in sides.items():
    output = str(scratch / f'{name}.npz')
    worker.ask(row='sample', arrays=file, outputs=output)
    with np.load(output) as arrays:
      if int(arrays['count']) != tokens:
        raise ValueError(f'{row.name}: {name} gave {arrays["count"]} tokens.')
  for _ in range(count):
    for name, worker in sides.items():
      made[name].append(tokens / worker.ask(repeats=1))
  return made


def compare(
  setup: setups.Setup,
  peer: str,
  model: str,
  folder: pathlib.Path,
  wanted: list[samples.Row],
  scratch: pathlib.Path,
) -> Iterator[dict[str, Any]]:
  """Measures rows of one model against one library."""
  vocab = hf.read_config(folder).vocab
  python = str(setup.pythons[samples.PEERS[peer]])
  start = processes.start
  with (
    start('arl_sampler', sys.executable, None, scratch) as ours,
    start(f'{peer}_sampler', python, None, scratch) as theirs,
  ):
    sides = {'arl': ours, peer: theirs}
    file, _ = samples.checked(folder, vocab, scratch)
    same = agree(sides, file, scratch)[peer]
    versions = {'arl': ours.versions, peer: theirs.versions}
    name = f'sampler/{model}/same_tokens/{peer}'
    yield from setup.tell(
      [samples.line(name, same, '', '>= 1', versions=versions)]
    )
    if same < 1:
      return
    for row in wanted:
      file = samples.file(
        scratch / 'sample.npz', samples.given(row, folder, vocab)
      )
      count = 3 if setup.quick else _ROUNDS[model]
      speeds = measure(row, sides, file, scratch, count)
      yield from setup.tell(samples.told(row, speeds))


def everything(
  setup: setups.Setup, scratch: pathlib.Path
) -> list[dict[str, Any]]:
  """All lines, those kept from before among them."""
  lines = setup.known()
  known = {line['name'] for line in lines if line['value'] is not None}
  rows = samples.QUICK if setup.quick else samples.ROWS
  for model in dict.fromkeys(row.model for row in rows):
    folder: Any = setup.smollm2
    if model == 'quickstart':
      folder = samples.quickstart(scratch)
    for peer in samples.PEERS:
      wanted = [
        row
        for row in rows
        if row.model == model and f'{row.name}/over_{peer}' not in known
      ]
      missing = setup.missing(samples.PEERS[peer], folder)
      if missing and wanted:
        name = f'sampler/{model}/over_{peer}'
        skipped = samples.line(name, None, 'x', samples.AIM, skipped=missing)
        lines += setup.tell([skipped])
      elif wanted:
        place = pathlib.Path(folder)
        lines += compare(setup, peer, model, place, wanted, scratch)
  return lines


def write(lines: list[dict[str, Any]], load: float) -> None:
  """Rewrites the table, with what has to be known to read it."""
  header = (
    'model', 'prompts', 'lengths', 'library', 'arl, tokens/s',
    'library, tokens/s', 'ratio', 'aim', '',
  )  # fmt: skip
  versions: dict[str, dict] = {}
  for line in lines:
    versions |= line.get('versions', {})
  about = (
    'Written by `python -m benchmarks.sampler`; the README of `benchmarks` says'
    ' what\nthe rows are. Medians over rounds, ratios with 95 % intervals.'
  )
  table = runs.markdown(header, samples.table(lines))
  machine.write(TABLE, about, table, load, machine.used(versions))


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  load = os.getloadavg()[0]
  setup = setups.from_flags()
  with tempfile.TemporaryDirectory() as name:
    lines = everything(setup, pathlib.Path(name))
  if not options.quick():
    write(lines, load)
  differing = [
    line['name']
    for line in lines
    if '/same_tokens/' in line['name'] and line['value'] < 1
  ]
  if differing:
    sys.exit(f'not the same tokens: {", ".join(differing)}')


if __name__ == '__main__':
  options.start(main)
