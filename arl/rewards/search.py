"""Answers to questions: exact match, F1, and what is paid for their form."""

import collections
import re
import string
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from arl.rewards import answers

_ARTICLES = re.compile(r'\b(?:a|an|the)\b')
_PUNCTUATION = str.maketrans('', '', string.punctuation)
_TAG = re.compile(r'<(/?)(think|search|information|answer)>')
_CLOSED = frozenset({'yes', 'no', 'noanswer'})
# What may follow a closed block; '' is the start.
_FOLLOWS: Mapping[str, tuple[str, ...]] = {
  '': ('think',),
  'think': ('search', 'answer'),
  'search': ('information',),
  'information': ('think',),
}


def normalized(text: str) -> str:
  """Lower case, without punctuation, articles and double space (SQuAD)."""
  bare = text.lower().translate(_PUNCTUATION)
  return ' '.join(_ARTICLES.sub(' ', bare).split())


def exact_match(answer: str | None, golds: Sequence[str]) -> float:
  """1 if an answer is one of the right ones, normalized; else, or None, 0."""
  if answer is None:
    return 0.0
  return float(normalized(answer) in {normalized(gold) for gold in golds})


def f1(answer: str | None, golds: Sequence[str]) -> float:
  """The largest F1 of the words of an answer and of a right one (SQuAD).

  Two empty ones agree, one empty one does not. Yes and no are right or wrong,
  as in HotpotQA.
  """
  if answer is None:
    return 0.0
  return max((_f1(normalized(answer), normalized(g)) for g in golds), default=0)


def _f1(answer: str, gold: str) -> float:
  if not answer or not gold or {answer, gold} & _CLOSED:
    return float(answer == gold)
  ours, theirs = answer.split(), gold.split()
  common = (collections.Counter(ours) & collections.Counter(theirs)).total()
  return 2 * common / (len(ours) + len(theirs))


class Said(NamedTuple):
  """What a completion that searches holds, for its reward.

  Attributes:
    answer: in its last answer block, outside of thoughts; None without one.
    structured: whether it is think, (search, information, think)*, answer, and
      nothing but space between them.
    retrieved: what its information blocks hold.
  """

  answer: str | None
  structured: bool
  retrieved: str


def read(text: str) -> Said:
  """Reads a completion with the results of its searches in it."""
  spoken = answers.said(text)
  answer = None if spoken is None else answers.tagged(spoken)
  retrieved = re.findall(r'<information>([^<]*)</information>', text)
  return Said(answer, _structured(text), '\n'.join(retrieved))


def _structured(text: str) -> bool:
  last, inside, end = '', '', 0
  for tag in _TAG.finditer(text):
    closes, name = bool(tag[1]), tag[2]
    if inside:
      if not closes or name != inside:
        return False
      last, inside = inside, ''
    else:
      between = text[end : tag.start()].strip()
      if closes or between or name not in _FOLLOWS.get(last, ()):
        return False
      inside = name
    end = tag.end()
  return last == 'answer' and not inside and not text[end:].strip()


def _holds(text: str, golds: Sequence[str]) -> bool:
  words = f' {normalized(text)} '
  return any(f' {n} ' in words for g in golds if (n := normalized(g)))


def search_r1(
  said: Said,
  golds: Sequence[str],
  *,
  structure: float = 0.2,
  retrieval: float = 0.1,
  final: float = 0.1,
) -> float:
  """Exact match with a ladder for form (Search-R1, arXiv:2503.09516).

  1 for a right answer, less `structure` if its form is bad. A wrong one earns
  `structure` for its form, and `retrieval` if what was found holds a right
  answer; with a bad form `final` for an answer at all. As the published code;
  its scripts leave all three at 0, which is exact match alone.
  """
  if exact_match(said.answer, golds):
    return 1.0 if said.structured else 1.0 - structure
  if said.structured:
    return structure + retrieval * _holds(said.retrieved, golds)
  return final * (said.answer is not None)


def research(said: Said, golds: Sequence[str], *, form: float = 0.1) -> float:
  """F1, or `form` for a wrong answer in a good form.

  ReSearch, arXiv:2503.19470.
  """
  return f1(said.answer, golds) or form * said.structured


def em_partial(
  said: Said,
  golds: Sequence[str],
  *,
  form: float = 0.1,
  retrieval: float = 0.2,
) -> float:
  """Exact match, plus something for form and for finding, for small models.

  One of three shapes, the others being `exact_match` and `f1`, that a study of
  small models compares (arXiv:2609.28765): there exact match alone is worst.
  Known from digests, which do not give this one's formula: it is ours.
  """
  right = exact_match(said.answer, golds)
  found = retrieval * _holds(said.retrieved, golds) * (1 - right)
  return right + form * said.structured + found
