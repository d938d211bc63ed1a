"""Scores of programs from what the harness saw their tests do.

Running them is the sandbox's. Nothing a program prints or returns counts here,
only outcomes that were observed from outside of it.
"""

from collections.abc import Sequence

from arl.rewards import verdict

PASSED = 'passed'
FAILED = 'failed'
CRASHED = 'crashed'
TIMEOUT = 'timeout'
NOT_COMPILED = 'not_compiled'
# The harness could not run the test, so nothing is known of the program.
UNKNOWN = 'unknown'
_KNOWN = frozenset({PASSED, FAILED, CRASHED, TIMEOUT, NOT_COMPILED, UNKNOWN})


def _unjudged(outcomes: Sequence[str]) -> verdict.Verdict | None:
  if not outcomes:
    return verdict.error('no tests: they judge nothing')
  if strange := set(outcomes) - _KNOWN:
    raise ValueError(
      f'outcomes: {", ".join(sorted(strange))} is no outcome; use one of'
      f' {", ".join(sorted(_KNOWN))}.'
    )
  if count := outcomes.count(UNKNOWN):
    return verdict.error(f'{count} of {len(outcomes)} tests were not run')
  return None


def all_passed(outcomes: Sequence[str]) -> verdict.Verdict:
  """1 if every test passed, else 0; an error without tests."""
  passed = list(outcomes).count(PASSED)
  found = f'{passed} of {len(outcomes)} passed'
  return _unjudged(outcomes) or verdict.scored(passed == len(outcomes), found)


def fraction(outcomes: Sequence[str]) -> verdict.Verdict:
  """The share of tests that passed; an error without tests.

  Partial credit: it is also paid for programs made to fit the easy tests.
  """
  if failed := _unjudged(outcomes):
    return failed
  return verdict.scored(list(outcomes).count(PASSED) / len(outcomes))


def coderl(outcomes: Sequence[str]) -> verdict.Verdict:
  """By the worst that happened: 1, -0.3, -0.6 or -1.

  1 if all tests passed, -0.3 if one failed, -0.6 if one crashed or did not end,
  -1 if the program does not compile (CodeRL, arXiv:2207.01780).
  """
  if failed := _unjudged(outcomes):
    return failed
  seen = set(outcomes)
  if NOT_COMPILED in seen:
    return verdict.scored(-1.0)
  if seen & {CRASHED, TIMEOUT}:
    return verdict.scored(-0.6)
  return verdict.scored(-0.3 if FAILED in seen else 1.0)
