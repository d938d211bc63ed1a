"""The structural kind of each token, from what its environment says of it."""

from collections.abc import Callable, Sequence

import numpy as np

from arl import episode, kinds
from arl.rollout import pieces


def of(
  one: episode.Episode,
  decode: Callable[[Sequence[int]], str],
  parts: Callable[[str], Sequence[int]],
) -> np.ndarray:
  """The kind (`arl.kinds`) of each token, int32 [n]; OTHER off the mask.

  A token that spans parts of several kinds has that of most of its characters,
  the earlier one in a tie. What the parts do not cover, such as the token that
  ends a turn, is FORMAT. So is a token that completes no character: of those
  that share one, the first that shows it has its kind.

  Args:
    one: the episode.
    decode: sampled ids -> the action's text. A token's characters are what it
      adds to the text of those before it: the text of an id by itself may have
      others, such as the space before a word.
    parts: action text -> the kind of each of its characters.
  """
  made = np.full(len(one.tokens), kinds.OTHER, np.int32)
  said = one.mask | one.extras.get(pieces.FORCED, False)
  for index, exchange in enumerate(one.exchanges):
    places = np.flatnonzero(said & (one.turn == index))
    ids = [int(i) for i in one.tokens[places]]
    known = list(parts(exchange.action))
    start = 0
    for count, place in enumerate(places, start=1):
      end = max(start, len(decode(ids[:count])))
      mine, start = known[start:end], end
      made[place] = max(mine, key=mine.count) if mine else kinds.FORMAT
  return np.where(one.mask, made, np.int32(kinds.OTHER))
