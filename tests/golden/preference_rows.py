"""The numbers of TRL 1.16 beside the recipes of arl that give them.

Each key of PAIRS is a result of that name: the loss of each pair, and its
gradient in what TRL puts into the loss: the sums over the tokens of a sequence,
or their means.
"""

import functools
from collections.abc import Callable
from typing import Any

from arl import methods

Row = Callable[[dict], Any]


def _at(name: str, *settings: str, **numbers: str) -> Row:
  """A recipe at TRL's settings, some of which have another name here."""

  def row(given):
    own = {n: given[theirs] for n, theirs in numbers.items()}
    return methods.make(name, **{n: given[n] for n in settings}, **own)

  return row


def _odds(name: str) -> Row:
  """The odds ratio of a recipe alone: TRL adds imitation elsewhere."""

  def row(given):
    made = methods.make(name, coef=given['beta'])
    bare = methods.make(name, coef=0.0)
    return made._replace(surrogate=_less(made.surrogate, bare.surrogate))

  return row


def _less(one, other):
  """The difference of two kernels of the same columns."""

  @functools.wraps(one.func)
  def difference(log_ratio, preferred, mask, seq, group):
    given = log_ratio, preferred, mask, seq, group
    return one(*given) - other(*given)

  return difference


PAIRS: dict[str, Row] = {
  'dpo': _at('preference.dpo', 'beta'),
  'dpo_label_smoothing': _at(
    'preference.dpo_smoothed', 'beta', smoothing='label_smoothing'
  ),
  'ipo': _at('preference.ipo', 'beta'),
  'ipo_summed': _at('preference.ipo_summed', 'beta'),
  'simpo': _at('preference.simpo', 'beta', 'gamma'),
  'orpo_odds_ratio_term': _odds('preference.orpo'),
}
# Whose log-ratios are means over tokens, and whose gradients are so, too.
AVERAGED = ('ipo', 'simpo', 'orpo_odds_ratio_term')
