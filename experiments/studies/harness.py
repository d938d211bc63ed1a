"""The quickstart with an agent from outside: what it reaches, and how fast.

  python -m experiments.studies.harness [--quick] [--workdir=DIR]

Trains the policy of experiments/agents/tool_user.py, a program written against
the `openai` package alone, from the warm start of the quickstart. Prints a JSON
object a line and rewrites experiments/results/harness.md. Success before and
after is on held-out tasks, played without the agent; that of training is the
agent's own, over the first and the last five batches.
"""

import pathlib
import statistics

from experiments.studies import quickstart, runs, summary

_AIMS = {'before': '<= 0.5', 'after': '>= 0.9', 'first': '', 'last': '>= 0.8'}


def trained(folder: pathlib.Path, seed: int, quick: bool) -> runs.Run:
  """The run of the agent from the warm start of a seed."""
  model = quickstart.warm_start(folder, seed, quick).workdir / 'final'
  return runs.Run(
    'launch.train',
    f'experiments/harness_agent.py:model={model}' + (',quick' if quick else ''),
    folder / f'harness_seed{seed}',
    (f'--config.seed={seed}',),
  )


def main(argv: list[str]) -> None:
  del argv
  root, quick, seeds = runs.root(), runs.quick(), runs.seeds()
  runs.make([quickstart.warm_start(root, seed, quick) for seed in seeds])
  made = [trained(root, seed, quick) for seed in seeds]
  runs.make(made, at_once=1)  # a run has processes of its own
  results = [runs.result(run) for run in made]
  rows = [runs.rows(run) for run in made]
  mean = lambda part, key: statistics.fmean(row[key] for row in part)
  table = {
    'before_sampled': runs.over_seeds(results, 'before', 'sampled'),
    'first_batches': [mean(each[:5], 'train/success') for each in rows],
    'last_batches': [mean(each[-5:], 'train/success') for each in rows],
    'after_sampled': runs.over_seeds(results, 'after', 'sampled'),
    'after_greedy': runs.over_seeds(results, 'after', 'greedy'),
  }
  body = []
  for name, values in table.items():
    value, interval = runs.mean(values)
    aim = _AIMS[name.partition('_')[0]]
    runs.line(f'harness/{name}', value, 'success rate', aim, seeds, interval)
    body.append([name.replace('_', ' '), runs.percent(value, interval)])
  for name, key in (('rollout', 'time/rollout'), ('update', 'time/update')):
    seconds, interval = runs.mean([mean(each[1:], key) for each in rows])
    runs.line(f'harness/{name}', seconds, 'seconds', '', seeds, interval)
    body.append([f'seconds of {name} a batch', f'{seconds:.1f}'])
  if not quick:
    runs.write_table(runs.RESULTS / 'harness.md', ('what', 'value'), body)
    summary.write()


if __name__ == '__main__':
  runs.start(main)
