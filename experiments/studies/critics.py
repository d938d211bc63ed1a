"""What critics explain, what one rollout a prompt needs, what rewards can tell.

  python -m experiments.studies.critics [--quick] [--workdir=DIR]

From the warm starts of experiments.studies.quickstart: critics by squared
error, in classes, bounded, and with values learnt before the policy moves, each
with one rollout a prompt, against DAPO with eight of as many tokens; and reward
models of pairs, of outcomes and of steps, learnt from rollouts of the warm
start. Prints a JSON object a line and rewrites experiments/results/critics.md,
critics.png and critics_success.png.
"""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from arl.report import curves
from arl.train import metrics
from experiments import critics
from experiments.studies import quickstart, runs, summary

CRITICS = ('mse', 'hl_gauss', 'bounded', 'pretrained')
EXPLAINED = 'value/explained'
# What a reward model is measured by: on rollouts that it has not learnt from,
# as every batch is of fresh tasks and is seen before the update.
MEASURED = {
  'bt': 'pairs/accuracy',
  'orm': 'outcome/accuracy',
  'prm': 'steps/agreement',
}
LAST = 10  # batches that a number is the mean of
HEADER = (
  'method', 'function', 'rollouts a prompt', 'explained, first', 'explained',
  'tokens', 'warm start', 'success', 'seconds',
)  # fmt: skip


def trained(
  root: pathlib.Path, name: str, seed: int, quick: bool, critic: str = ''
) -> runs.Run:
  """The run of a method of experiments/critics.py from a seed's warm start."""
  warm = quickstart.warm_start(root.parent, seed, quick).workdir / 'final'
  method = name if name in critics.METHODS else 'mse'
  chosen = [f'model={warm}', f'method={method}']
  chosen += [f'critic={critic}'] * bool(critic) + ['quick'] * quick
  return runs.Run(
    'launch.train',
    f'experiments/critics.py:{",".join(chosen)}',
    root / f'{name}_seed{seed}',
    (f'--config.seed={seed}',),
  )


Rows = Sequence[Mapping[str, float]]


def last(rows: Rows, key: str) -> float:
  """The mean of a metric over the last batches that have it."""
  return float(np.mean([row[key] for row in rows if key in row][-LAST:]))


def tell(name: str, row: Sequence[runs.Run], seeds: Sequence[int]) -> list[str]:
  """Prints the lines of a policy's runs; gives its cells from the third on."""
  results, logs = [runs.result(r) for r in row], [runs.rows(r) for r in row]
  cells = []
  if any(EXPLAINED in line for line in logs[0]):
    first = runs.mean([log[0][EXPLAINED] for log in logs])
    late = runs.mean([last(log, EXPLAINED) for log in logs])
    for when, (value, interval) in (('first', first), ('last', late)):
      line = f'critics/{name}/explained_{when}'
      runs.line(line, value, 'share of variance', '', seeds, interval)
      cells.append(f'{value:.3f}')
  else:
    cells += ['', '']
  sampled, interval = runs.mean(
    [sum(map(metrics.sampled_tokens, log)) for log in logs]
  )
  runs.line(f'critics/{name}/tokens', sampled, 'tokens', '', seeds, interval)
  cells.append(f'{sampled:.3g}')
  for when in ('before', 'after'):
    value, interval = runs.mean(runs.over_seeds(results, when, 'sampled'))
    line = f'critics/{name}/{when}'
    runs.line(line, value, 'success rate', '', seeds, interval)
    cells.append(runs.percent(value, interval))
  seconds, _ = runs.mean([r['wall_seconds'] for r in results])
  return [*cells, f'{seconds:.0f}']


def tell_model(
  name: str, row: Sequence[runs.Run], seeds: Sequence[int]
) -> list[str]:
  """Prints the line of a reward model's runs; gives its cells."""
  logs, key = [runs.rows(run) for run in row], MEASURED[name]
  if not all(any(key in each for each in log) for log in logs):
    runs.line(f'critics/{name}', None, key, '> 0.5', seeds, None)
    return [name, f'reward.{name}', key, '', '']
  first = [next(each[key] for each in log if key in each) for log in logs]
  value, interval = runs.mean([last(log, key) for log in logs])
  runs.line(f'critics/{name}', value, key, '> 0.5', seeds, interval)
  begun = f'{np.mean(first):.3f}'
  return [name, f'reward.{name}', key, begun, runs.percent(value, interval)]


def main(argv: list[str]) -> None:
  del argv
  root, quick, seeds = runs.root() / 'critics', runs.quick(), runs.seeds()
  runs.make([quickstart.warm_start(root.parent, s, quick) for s in seeds])
  values = {s: trained(root, 'values', s, quick) for s in seeds}
  table = {
    name: [trained(root, name, s, quick) for s in seeds]
    for name in (*CRITICS[:-1], *MEASURED)
  }
  table['dapo'] = [
    quickstart.trained(root.parent, 'dapo', s, quick) for s in seeds
  ]
  first = [*values.values(), *(r for row in zip(*table.values()) for r in row)]
  runs.make(first)
  table['pretrained'] = [
    trained(root, 'pretrained', s, quick, str(values[s].workdir / 'final'))
    for s in seeds
  ]
  runs.make(table['pretrained'])
  body = []
  for name in (*CRITICS, 'dapo'):
    config = critics.METHODS.get(name, critics.METHODS['mse'])
    function = 'grpo.dapo' if name == 'dapo' else config['name']
    samples = '8' if name == 'dapo' else '1'
    body.append([name, function, samples, *tell(name, table[name], seeds)])
  learnt = [last(runs.rows(values[s]), EXPLAINED) for s in seeds]
  value, interval = runs.mean(learnt)
  line = 'critics/values/explained_last'
  runs.line(line, value, 'share of variance', '> 0', seeds, interval)
  models = [tell_model(name, table[name], seeds) for name in MEASURED]
  if not quick:
    write(table, body, models, seeds)
    summary.write()


def write(
  table: Mapping[str, Sequence[runs.Run]],
  body: Sequence[Sequence[str]],
  models: Sequence[Sequence[str]],
  seeds: Sequence[int],
) -> None:
  """Writes the tables and the figures."""
  path = runs.RESULTS / 'critics.md'
  header = ('model', 'function', 'measure', 'first batch', 'last batches')
  runs.write_table(path, header, models, seeds)
  text = runs.markdown(HEADER, body) + '\n' + path.read_text('utf-8')
  path.write_text(text, encoding='utf-8')
  logs = {name: [runs.rows(run) for run in row] for name, row in table.items()}
  explained = {name: logs[name] for name in CRITICS}
  curves.compare(explained, EXPLAINED, runs.RESULTS / 'critics.png')
  success = {name: logs[name] for name in (*CRITICS, 'dapo')}
  curves.compare(success, 'train/success', runs.RESULTS / 'critics_success.png')


if __name__ == '__main__':
  runs.start(main)
