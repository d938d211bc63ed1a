"""What leaves the loss, and rewards that are shaped: Objective to Objective."""

import functools

from arl import methods, ranges, types
from arl.kernels import advantages, shaping
from arl.methods import compose


def finished(base: methods.Base = 'grpo.dapo') -> compose.Objective:
  """The base without the loss of truncated sequences.

  DAPO's overlong filtering (arXiv:2503.14476, 3.4): the sequence counts in the
  baseline of its group, in numerator and denominator of the loss it does not.
  Status: published.
  """
  return compose.only(methods.objective(base), lambda truncated: ~truncated)


def live_groups(base: methods.Base = 'grpo.dapo') -> compose.Objective:
  """The base without the loss of groups that hold no comparison.

  Those whose rewards are all equal. Status: published idea (DAPO,
  arXiv:2503.14476, 3.2), our form.
  """
  return compose.only(methods.objective(base), advantages.comparable)


def overlong_shaped(
  base: methods.Base = 'grpo.dapo',
  *,
  longest: ranges.Positive = 20480,
  cache: ranges.Positive = 4096,
) -> compose.Objective:
  """The base on rewards with DAPO's soft overlong punishment.

  arXiv:2503.14476, 3.4, eq. 13: from 0 at longest - cache tokens of the policy
  it falls linearly to -1 at `longest`. Status: published, official code read.
  """
  shaped = functools.partial(shaping.overlong, longest=longest, buffer=cache)
  return rewarded(methods.objective(base), shaped)


def rewarded(
  objective: compose.Objective, shape: types.Kernel
) -> compose.Objective:
  """The objective on rewards that a kernel shapes, and so its terms."""
  first = ('rewards', shape)
  return objective._replace(
    advantage=(first, *compose.steps(objective.advantage)),
    terms=tuple(
      term._replace(credit=(first, *term.credit)) if term.credit else term
      for term in objective.terms
    ),
  )
