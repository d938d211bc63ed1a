r"""RESULTS.md: published baselines on one task, and what the studies found.

  python -m experiments.results [--quick] [--seeds=3] [--workdir=DIR] \
    [--finished] [--baselines=grpo,dapo]

Trains every baseline of experiments/baselines/ from the warm starts of
experiments.studies.quickstart, where a run of the same config is missing, two
at a time; compares each with what is claimed of it, and says on stderr and by
its exit status where a claim does not hold. Prints a JSON object a line, and
rewrites experiments/results/claims.json, baselines.md and four figures beside
it, the line on what it reaches in each baseline's file, and RESULTS.md, whose
other sections are those of the studies. Stopped, it goes on where it was.

With --baselines it is about some of them, and the pages stay as they are. A
hash of the config tells runs apart; it does not know the code, so after a
change of that give another --workdir.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from absl import flags

from arl.evaluate import over_runs
from experiments.studies import (
  baselines,
  claims,
  comparing,
  methods,
  runs,
  summary,
)

LEAST = 3  # seeds
_TEXT = """20 batches of 128 episodes each. Success is held out, sampled, of
256 tasks: the interquartile mean over seeds and its 95 % interval, by drawing
seeds and tasks with return. A claim `holds` where this is within the interval
that was claimed before; `new` is one that was not made before.

Kinds is the interquartile mean over all seeds and four kinds of task (sums, and
look-ups behind none, one and two pointers), 64 tasks each; its interval is by a
bootstrap of seeds and, kind by kind, of tasks. Better than GRPO is the chance
that a run is better than one of GRPO, the mean over kinds. Tokens and seconds
are what it takes until four batches in a row succeed in 80 % of their episodes:
the median over seeds, empty where that is never.

Stale rollouts are four updates old, so that what corrects for it has something
to do; the other rows are not, and what DAPO alone reaches so is below, under
stale rollouts. The teacher of distillation is what DAPO's baseline made of the
same warm start. Seconds are those of a run that shares two cores with another,
and with whatever else they had to do.

"""
HEADER = (
  'family', 'baseline', 'publication', 'function', 'success', 'claim', 'kinds',
  'better than GRPO', 'tokens', 'seconds', 'of a run',
)  # fmt: skip


class Measured(NamedTuple):
  """A baseline's cells of the table, its claim and what became of the old."""

  cells: list[str]
  claim: claims.Claim
  verdict: str


def measure(
  name: str,
  table: Mapping[str, Sequence[runs.Run]],
  outcomes: Mapping[str, over_runs.Outcomes],
  old: claims.Claim | None,
) -> Measured:
  """Prints what a baseline reached."""
  row = table[name]
  claim = claimed(name, row)
  verdict = claims.verdict(old, claim)
  aim = '' if old is None else f'{old.interval[0]} to {old.interval[1]}'
  _line(name, 'success', claim.success, 'success rate', claim.interval, aim)
  middle, around = over_runs.interquartile_mean(outcomes[name], seed=0)
  _line(name, 'kinds', middle, 'success rate', around)
  better = _better(name, outcomes)
  tokens, waited = comparing.cost([runs.rows(run) for run in row])
  _line(name, 'tokens', tokens, f'tokens to {comparing.ENOUGH}')
  _line(name, 'seconds', waited, f'seconds to {comparing.ENOUGH}')
  _line(name, 'wall', claim.seconds, 'seconds')
  module = baselines.module(name)
  cells = [
    baselines.family(name),
    name,
    _linked(module.PAPER),
    module.METHOD['name'],
    runs.percent(claim.success, claim.interval),
    verdict,
    runs.percent(middle, around),
    better,
    '' if tokens is None else f'{tokens:,.0f}',
    '' if waited is None else f'{waited:.0f}',
    f'{claim.seconds:.0f}',
  ]
  return Measured(cells, claim, verdict)


def claimed(name: str, row: Sequence[runs.Run]) -> claims.Claim:
  """What runs of a baseline would have it claim."""
  results = [runs.result(run) for run in row]
  success, (low, high) = methods.success(methods.counts(results, 'after'))
  seconds = sum(r['wall_seconds'] for r in results) / len(results)
  return claims.Claim(
    success=round(success, 4),
    interval=(low, high),
    seconds=round(seconds, 1),
    seeds=runs.seeds(),
    of=claims.digest(name),
    on=claims.measured_on(results[0]['versions']),
  )


def _line(name, what, value, unit, interval=None, aim='') -> None:
  """Prints a number of a baseline."""
  told = None if interval is None else [round(x, 4) for x in interval]
  runs.line(f'results/{name}/{what}', value, unit, aim, runs.seeds(), told)


def _better(name: str, outcomes: Mapping[str, over_runs.Outcomes]) -> str:
  """The cell on the reference; empty where that was not run."""
  if baselines.REFERENCE not in outcomes:
    return ''
  value, interval = over_runs.improvement(
    outcomes[name], outcomes[baselines.REFERENCE], seed=0
  )
  _line(name, 'better', value, 'probability', interval)
  return runs.percent(value, interval)


def _linked(paper: str) -> str:
  """A publication as Markdown."""
  _, colon, number = paper.partition(':')
  return f'[{paper}](https://arxiv.org/abs/{number})' if colon else paper


def check(
  found: Mapping[str, Measured], old: Mapping[str, claims.Claim]
) -> list[str]:
  """Says on stderr which claims do not hold; their baselines."""
  broken = [n for n, m in found.items() if m.verdict == claims.BROKEN]
  for name in broken:
    low, high = old[name].interval
    print(
      f'BROKEN CLAIM: {name} reached {found[name].claim.success:.3f}, which is'
      f' outside of {low:.3f} to {high:.3f}, claimed on {old[name].on}.',
      file=sys.stderr,
    )
  return broken


def write(
  found: Mapping[str, Measured],
  table: Mapping[str, Sequence[runs.Run]],
  outcomes: Mapping[str, over_runs.Outcomes],
  kept: Mapping[str, claims.Claim],
) -> None:
  """Rewrites the table and the figures."""
  rest = [name for name in baselines.NAMES if name not in found]
  text = _TEXT + runs.markdown(HEADER, [one.cells for one in found.values()])
  text += f'\nSeeds: {", ".join(map(str, runs.seeds()))}.\n'
  if rest:
    text += f'\nNot run yet: {", ".join(rest)}.\n'
  places = sorted({claim.on for claim in kept.values()})
  text += f'\nMeasured on: {"; on: ".join(places)}.\n'
  (runs.RESULTS / 'baselines.md').write_text(text, encoding='utf-8')
  comparing.draw(table, outcomes)


def _chosen() -> tuple[str, ...]:
  """The baselines that this is about.

  Raises:
    ValueError: one is unknown, or there are too few seeds for intervals.
  """
  if runs.quick():
    return baselines.QUICK
  if len(runs.seeds()) < LEAST:
    raise ValueError(f'--seeds: give {LEAST} or more, for intervals.')
  names = tuple(flags.FLAGS.baselines) or baselines.NAMES
  unknown = [name for name in names if name not in baselines.NAMES]
  if unknown:
    raise ValueError(
      f'--baselines={unknown[0]}: known are {", ".join(baselines.NAMES)}.'
    )
  return names


def main(argv: list[str]) -> None:
  del argv
  names, quick = _chosen(), runs.quick()
  table = baselines.make(runs.root(), names, runs.seeds(), quick)
  baselines.evaluate([run for row in table.values() for run in row], quick)
  outcomes = {name: baselines.outcomes(row) for name, row in table.items()}
  old = {} if quick else claims.read(claims.FILE)
  found = {
    name: measure(name, table, outcomes, old.get(name)) for name in table
  }
  if quick:
    return
  broken = check(found, old)
  new = {n: m.claim for n, m in found.items() if m.verdict == claims.NEW}
  kept = {**old, **new}
  if new:
    claims.write(kept, claims.FILE)
  claims.tell(kept, baselines.NAMES)
  if names == baselines.NAMES:
    if baselines.REFERENCE in found:
      write(found, table, outcomes, kept)
    else:
      print('GRPO is not finished: the table stays.', file=sys.stderr)
    summary.write()
  if broken:
    sys.exit(f'{len(broken)} of {len(found)} claims do not hold.')


def _define() -> None:
  flags.DEFINE_list('baselines', [], 'Which ones; all by default.')


if __name__ == '__main__':
  runs.start(main, define=_define)
