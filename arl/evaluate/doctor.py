"""What is wrong with a run: all detectors, and which finding explains another.

`diagnose` looks at a run so far, finished or not. The training loop calls it
after every step, and `python -m launch.doctor` on a run's folder.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from arl.evaluate import failures, findings, trust


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
  'template': Sign(7, failures.template),
  'drift': Sign(0, trust.drift),
  'engine': Sign(0, trust.engine),
}

# (what follows, from what) -> how. A finding is explained by the first of its
# causes that trips as well.
FOLLOWS: dict[tuple[str, str], str] = {
  ('engine', 'masks'): 'no engine reported log-probs of those tokens',
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
  before: Mapping[str, str], now: Sequence[findings.Finding]
) -> list[findings.Finding]:
  """Those that trip and did not before, or that did and no longer do.

  Args:
    before: the state of each finding as of the step before.
    now: of this step.
  """
  return [
    each
    for each in now
    if (each.state == findings.TRIPS)
    != (before.get(each.name) == findings.TRIPS)
  ]


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
