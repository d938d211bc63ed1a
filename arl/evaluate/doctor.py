"""What is wrong with a run: all detectors, and which finding explains another.

`diagnose` looks at a run so far, finished or not. The training loop calls it
after every step, and `python -m launch.doctor` on a run's folder.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from arl.evaluate import failures, findings, limits, trust


class Sign(NamedTuple):
  """A detector.

  Attributes:
    failure: which of the survey's seven it is a sign of; 0 for none.
    detect: (run so far) -> finding.
  """

  failure: int
  detect: Callable[[findings.Run], findings.Finding]


SIGNS: dict[str, Sign] = {
  'masks': Sign(1, failures.masks),
  'hacking': Sign(2, failures.hacking),
  'length': Sign(3, failures.length),
  'truncation': Sign(3, failures.truncation),
  'calls': Sign(4, failures.calls),
  'loops': Sign(5, failures.loops),
  'groups': Sign(6, failures.groups),
  'entropy': Sign(7, failures.entropy),
  'spread': Sign(7, failures.spread),
  'template': Sign(7, failures.template),
  'drift': Sign(0, trust.drift),
  'engine': Sign(0, trust.engine),
}

# (what follows, from what) -> how. A finding is explained by the first of its
# causes that trips as well.
FOLLOWS: dict[tuple[str, str], str] = {
  ('engine', 'masks'): 'no engine reported log-probs of those tokens',
  ('truncation', 'length'): 'longer episodes meet the limits',
  ('truncation', 'loops'): 'who repeats runs into the limits',
  ('loops', 'length'): 'who is paid for length repeats',
  ('calls', 'length'): 'who is paid for length says anything',
  ('calls', 'truncation'): 'right calls are cut off, and only wrong ones count',
  ('calls', 'drift'): 'what is learnt from old samples spoils the new policy',
  ('hacking', 'length'): 'what is paid for length is paid whatever comes of it',
  ('calls', 'engine'): 'a sampler that is off says what the policy would not',
  ('groups', 'truncation'): 'what is cut off earns nothing, all of it alike',
  ('groups', 'entropy'): 'who always says the same earns the same',
  ('spread', 'entropy'): 'who always says the same earns the same',
  ('spread', 'groups'): 'rewards of groups that do not differ have no spread',
  ('template', 'entropy'): 'who says one thing says it whatever is asked',
}


def diagnose(run: findings.Run) -> list[findings.Finding]:
  """One finding a detector, in the order of `SIGNS`."""
  made = {name: sign.detect(run) for name, sign in SIGNS.items()}
  trips = {name for name, each in made.items() if each.state == findings.TRIPS}
  return [
    each._replace(because=_cause(name, trips)) if name in trips else each
    for name, each in made.items()
  ]


def _cause(name: str, trips: set[str]) -> str:
  causes = [
    cause for (what, cause) in FOLLOWS if what == name and cause in trips
  ]
  return causes[0] if causes else ''


def changed(
  noted: Collection[str], run: findings.Run
) -> list[findings.Finding]:
  """What has begun to trip, and what has not tripped for a window of steps.

  Args:
    noted: the names of the findings that trip as far as one was told.
    run: so far; told of is its last step.
  """
  made = []
  for each in diagnose(run):
    trips, known = each.state == findings.TRIPS, each.name in noted
    over = known and not trips and not _tripped_lately(each.name, run)
    if over or (trips and not known):
      made.append(each)
  return made


def _tripped_lately(name: str, run: findings.Run) -> bool:
  """Whether it tripped in one of the steps before the last."""
  before = range(1, int(limits.limit('window')))
  runs = (run._replace(rows=run.rows[:-back]) for back in before)
  return any(SIGNS[name].detect(r).state == findings.TRIPS for r in runs)


def still(told: Sequence[findings.Finding]) -> set[str]:
  """The names of what trips after all that `changed` has told, in order."""
  names: set[str] = set()
  for each in told:
    change = names.add if each.state == findings.TRIPS else names.discard
    change(each.name)
  return names


def sentence(found: findings.Finding) -> str:
  """A finding as one line, for a log."""
  first, last = found.steps
  where = f'step {last}' if first == last else f'steps {first} to {last}'
  if found.state != findings.TRIPS:
    return f'{found.name}: over ({found.evidence}; {where})'
  text = f'warning: {found.name}: {found.evidence} ({where})'
  if found.because:
    how = FOLLOWS[found.name, found.because]
    return f'{text}; follows from {found.because}: {how}'
  return f'{text}; look at {", ".join(found.settings)}'
