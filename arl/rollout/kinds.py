"""The structural kind of each token, from what its environment says of it."""

from collections.abc import Callable, Sequence

import numpy as np

from arl import episode, kinds


def of(
  one: episode.Episode,
  pieces: Callable[[Sequence[int]], list[str]],
  parts: Callable[[str], Sequence[int]],
) -> np.ndarray:
  """The kind (`arl.kinds`) of each token, int32 [n]; OTHER off the mask.

  A token that spans parts of several kinds has that of most of its characters,
  the earlier one in a tie. What the parts do not cover, such as the token that
  ends a turn, is FORMAT.

  Args:
    one: the episode.
    pieces: token ids -> the text of each.
    parts: action text -> the kind of each of its characters.
  """
  made = np.full(len(one.tokens), kinds.OTHER, np.int32)
  for index, exchange in enumerate(one.exchanges):
    places = np.flatnonzero(one.mask & (one.turn == index))
    known = list(parts(exchange.action))
    texts = pieces([int(i) for i in one.tokens[places]])
    for place, text in zip(places, texts):
      mine, known = known[: len(text)], known[len(text) :]
      made[place] = max(mine, key=mine.count) if mine else kinds.FORMAT
  return made
