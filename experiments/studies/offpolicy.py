"""Stale rollouts and unlike samplers, with and without each correction.

  python -m experiments.studies.offpolicy [--quick] [--workdir=DIR]

As experiments.studies.methods: methods for stale rollouts with rollouts 4 and
16 updates old, those for unlike samplers with noise on the sampler's log-probs,
and two that correct nothing with both. Prints a JSON object a line and rewrites
experiments/results/offpolicy.md and offpolicy.png.
"""

import math
from collections.abc import Sequence

from arl.report import heat
from experiments.studies import methods, quickstart, runs, summary

# A batch has two updates, so rollouts that lag two batches are 4 updates old.
CONDITIONS = {
  'fresh': (),
  '4 updates old': ('--config.rollout.lag=2',),
  '16 updates old': ('--config.rollout.lag=8',),
  'noisy log-probs': (
    '--config.rollout.strategy=experiments.studies.sabotage.misreported',
  ),
}
OLD = ('4 updates old', '16 updates old')
NOISY = ('noisy log-probs',)
# Under which conditions a method is run, besides fresh rollouts.
STUDIED = {
  'dapo': OLD + NOISY,
  'gspo': OLD + NOISY,
  **dict.fromkeys(('cispo', 'topr', 'dppo', 'dppo_kl', 'vtrace'), OLD),
  **dict.fromkeys(('decoupled_ppo', 'opsm', 'estr', 'drop_stale'), OLD),
  **dict.fromkeys(('dis', 'two_level'), OLD + NOISY),
  **dict.fromkeys(('tis', 'tis_sequence', 'tis_normalized'), NOISY),
  **dict.fromkeys(('mis', 'mis_product', 'mis_mean', 'mis_largest'), NOISY),
  **dict.fromkeys(('icepop', 'glm5_reasoning', 'glm5_agentic'), NOISY),
}
QUICK = ('dapo', 'icepop')


def _folder(method: str, condition: str) -> str:
  return f'{method}_{condition.replace(" ", "_")}'


def made(method: str, condition: str) -> Sequence[runs.Run]:
  """The runs of a method under a condition, one a seed."""
  return [
    methods.trained(
      runs.root(),
      method,
      seed,
      runs.quick(),
      '' if condition == 'fresh' else _folder(method, condition),
      CONDITIONS[condition],
    )
    for seed in runs.seeds()
  ]


def measure(
  method: str, condition: str, row: Sequence[runs.Run]
) -> tuple[float, list[float]]:
  """Prints and gives what a method reached under a condition."""
  results = [runs.result(run) for run in row]
  value, interval = methods.success(methods.counts(results, 'after'))
  name = f'offpolicy/{method}/{condition.replace(" ", "_")}'
  runs.line(name, value, 'success rate', '', runs.seeds(), interval)
  return value, interval


def _cell(found, method, condition) -> str:
  if condition not in ('fresh', *STUDIED[method]):
    return ''
  if (method, condition) not in found:
    return 'not run yet'
  return runs.percent(*found[method, condition])


def main(argv: list[str]) -> None:
  del argv
  studied = QUICK if runs.quick() else tuple(STUDIED)
  warm = [
    quickstart.warm_start(runs.root(), seed, runs.quick())
    for seed in runs.seeds()
  ]
  runs.make(warm)
  table = {(m, c): made(m, c) for m in studied for c in ('fresh', *STUDIED[m])}
  runs.make([run for row in table.values() for run in row])
  table = {k: row for k, row in table.items() if all(map(runs.finished, row))}
  found = {key: measure(*key, row) for key, row in table.items()}
  if runs.quick():
    return
  runs.write_table(
    runs.RESULTS / 'offpolicy.md',
    ('method', *CONDITIONS),
    [[m, *(_cell(found, m, c) for c in CONDITIONS)] for m in studied],
  )
  heat.heat(
    [
      [found[m, c][0] if (m, c) in found else math.nan for c in CONDITIONS]
      for m in studied
    ],
    rows=studied,
    columns=tuple(CONDITIONS),
    title='Held-out success after 20 batches',
    path=runs.RESULTS / 'offpolicy.png',
  )
  summary.write()


if __name__ == '__main__':
  runs.start(main)
