"""Where the policy verifies, hedges or turns back, by what it says there."""

import re
from collections.abc import Callable, Sequence

import numpy as np

from arl import episode
from arl.rollout import pieces

BETWEEN = '|'  # stands between phrases that are written as one text


def phrases(text: str) -> tuple[str, ...]:
  """The phrases in a text, such as 'wait|let me check'.

  Raises:
    ValueError: one of them is empty.
  """
  found = tuple(text.split(BETWEEN))
  if not all(phrase.strip() for phrase in found):
    raise ValueError(
      f'config.rollout.reconsidering is {text!r}; give phrases with {BETWEEN!r}'
      ' between them, none of them empty.'
    )
  return found


def of(
  one: episode.Episode,
  decode: Callable[[Sequence[int]], str],
  said: Sequence[str],
) -> np.ndarray:
  """True on sampled tokens that have a part of one of the phrases, bool [n].

  Upper and lower case are the same; a phrase that begins or ends with a letter
  begins or ends a word. A token that completes no character, where several
  share one, is not marked.

  Args:
    one: the episode.
    decode: sampled ids -> the action's text.
    said: the phrases.
  """
  pattern = re.compile('|'.join(map(_whole, said)), re.IGNORECASE)
  made = np.zeros(len(one.tokens), bool)
  action = one.mask | one.extras.get(pieces.FORCED, False)
  for index in np.unique(one.turn[action]):
    places = np.flatnonzero(action & (one.turn == index))
    ids = [int(i) for i in one.tokens[places]]
    ends = np.array([len(decode(ids[:n])) for n in range(1, len(ids) + 1)])
    starts = np.concatenate([[0], ends[:-1]])
    for found in pattern.finditer(decode(ids)):
      inside = (starts < found.end()) & (ends > found.start())
      made[places[inside]] = True
  return made & one.mask


def _whole(phrase: str) -> str:
  """A pattern of the phrase that ends in no middle of a word."""
  before = r'\b' if phrase[0].isalnum() else ''
  after = r'\b' if phrase[-1].isalnum() else ''
  return f'{before}{re.escape(phrase)}{after}'
