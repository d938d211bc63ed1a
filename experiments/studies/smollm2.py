r"""What SmolLM2-135M learns on a CPU, and what that costs.

  JAX_PLATFORMS=cpu python -m experiments.studies.smollm2 [--quick] \
    [--model=DIR] [--workdir=DIR]

Trains experiments/smollm2_tools.py in this process, so that its memory and CPU
time are those of the run. Prints a JSON object a line and rewrites
experiments/results/smollm2.json, .md and .png.
"""

import json
import math
import os
import pathlib
import resource
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import app, flags, logging

from arl import command
from arl.report import curves
from arl.train import loop, metrics
from experiments import smollm2_tools
from experiments.studies import runs, summary

_SEED = 0


def newcombe(
  before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[float, list[float]]:
  """The gain in success rate and its 95 % interval (Newcombe, 1998, method 10).

  It squares and adds what the two Wilson intervals leave on either side, which
  takes the two sets of episodes for independent.

  Args:
    before: with `success`, `success_low` and `success_high`.
    after: the same.
  """

  def sides(rate):
    middle = rate['success']
    return middle - rate['success_low'], rate['success_high'] - middle

  (below, above), (new_below, new_above) = sides(before), sides(after)
  gain = after['success'] - before['success']
  low = gain - math.hypot(new_below, above)
  high = gain + math.hypot(new_above, below)
  return gain, [round(low, 4), round(high, 4)]


def _rates(results: Mapping[str, Any]) -> list[dict[str, Any]]:
  """Lines on success before, after, and the gain."""
  lines = []
  for how, before, after in (
    ('sampled', '0.15 to 0.5', '>= 0.65'),
    ('greedy', '', ''),
  ):
    for when, aim in (('before', before), ('after', after)):
      rate = results[when][how]
      interval = [round(rate[f'success_{end}'], 4) for end in ('low', 'high')]
      lines.append(
        _line(f'{when}_{how}', rate['success'], 'success rate', aim, interval)
      )
    gain, interval = newcombe(results['before'][how], results['after'][how])
    lines.append(
      _line(f'gain_{how}', gain, 'success rate', 'interval > 0', interval)
    )
  return lines


def _costs(rows: list[dict[str, float]]) -> list[dict[str, Any]]:
  """Lines on time, over the steps after the first, which compiles."""
  later = rows[1:] or rows
  mean = lambda key: float(np.mean([row[key] for row in later]))
  seconds = mean('time/rollout') + mean('time/update')
  tokens = [metrics.sampled_tokens(row) for row in later]
  return [
    _line('step', seconds, 'seconds', '<= 80'),
    _line('rollout', mean('time/rollout'), 'seconds a step', ''),
    _line('update', mean('time/update'), 'seconds a step', ''),
    _line('sampled', np.mean(tokens) / seconds, 'tokens a second', ''),
  ]


def _line(name, value, unit, aim, interval=None):
  return runs.line(f'smollm2/{name}', value, unit, aim, (_SEED,), interval)


def _shown(line: Mapping[str, Any]) -> str:
  if line['interval'] is None:
    return f'{line["value"]:.3g}'
  return runs.percent(line['value'], line['interval'])


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  logging.set_verbosity(logging.WARNING)
  given = flags.FLAGS
  workdir = pathlib.Path(given.workdir)
  if (workdir / 'results.json').exists():
    raise app.UsageError(
      f'--workdir={workdir} holds a finished run, whose memory and CPU time are'
      ' not known any more; give a new folder.'
    )
  quick = ',quick' if given.quick else ''
  config = smollm2_tools.get_config(f'model={given.model}{quick}')
  config.seed, began = _SEED, time.monotonic()
  loop.train(config, str(workdir))
  wall = time.monotonic() - began
  used = resource.getrusage(resource.RUSAGE_SELF)
  results = json.loads((workdir / 'results.json').read_text(encoding='utf-8'))
  rows = metrics.read(workdir)
  lines = [
    *_rates(results),
    *_costs(rows),
    _line('peak_memory', used.ru_maxrss / 2**20, 'GiB', '<= 4'),
    _line('wall', wall, 'seconds', '<= 1800'),
    _line('cpu', used.ru_utime + used.ru_stime, 'seconds', ''),
    _line('load', os.getloadavg()[2], 'average of 15 minutes', ''),
  ]
  if quick:
    return
  runs.RESULTS.mkdir(parents=True, exist_ok=True)
  reward = [round(row['train/reward'], 4) for row in rows]
  made = {'lines': lines, 'train_reward': reward, 'run': results}
  text = json.dumps(made, indent=2) + '\n'
  (runs.RESULTS / 'smollm2.json').write_text(text, encoding='utf-8')
  curves.curves(rows, runs.RESULTS / 'smollm2.png')
  body = [
    [each['name'].removeprefix('smollm2/'), _shown(each), each['unit']]
    for each in lines
  ]
  runs.write_table(
    runs.RESULTS / 'smollm2.md', ('number', 'value (95 %)', 'unit'), body
  )
  summary.write()


def define() -> None:
  """Defines the flags."""
  flags.DEFINE_bool('quick', False, 'A smoke run: the same lines, fast.')
  flags.DEFINE_string(
    'model', 'runs/smollm2/model', 'The folder that arl.models.convert wrote.'
  )
  flags.DEFINE_string(
    'workdir', 'runs/smollm2/study', 'Where the run is written; must be new.'
  )


if __name__ == '__main__':
  command.run(main, define)
