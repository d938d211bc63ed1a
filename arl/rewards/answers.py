"""Finding the one answer that a text gives: text to a part of it, or None.

An answer is what is said once thinking is over, and there is one: where several
are marked, the last. Reading takes time linear in the length of the text.
"""

import re

_BOXES = ('\\boxed{', '\\fbox{')
# An answer that nothing marks is looked for in the end of a text.
_TAIL = 2000
_FORMULA = re.compile(
  r'\$\$?([^$]+)\$\$?|\\\(((?:(?!\\\().)+?)\\\)|\\\[((?:(?!\\\[).)+?)\\\]',
  re.DOTALL,
)
_NUMBER = re.compile(r'(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?%?')
_BETWEEN = re.compile(
  r'[\s*$]*(?:,|;|/|\bor\b|\band\b)[\s*$]*(?:or\b|and\b)?\s*'
)
_WORD = re.compile(r'(?<![\\A-Za-z])[A-Za-z]{3,}')
_ENVIRONMENT = re.compile(r'\\(?:begin|end)\{[a-z]+\*?\}')
_SPOKEN = re.compile(r'(?<![\\A-Za-z])(?:or|is|as|so|we|it)\b')


def said(text: str) -> str | None:
  """What follows the last thought; all of a text without one.

  None for a thought that never ends: then nothing was said.
  """
  _, closed, rest = text.rpartition('</think>')
  return None if '<think>' in rest else rest if closed else text


def boxed(text: str) -> str | None:
  r"""What the last \boxed{..} holds; None without one, or if left open."""
  start, mark = max((text.rfind(mark), mark) for mark in _BOXES)
  if start < 0:
    return None
  begin = position = start + len(mark)
  depth = 1
  while position < len(text):
    letter = text[position]
    if letter == '\\':
      position += 1
    elif letter in '{}':
      depth += 1 if letter == '{' else -1
      if not depth:
        return text[begin:position].strip()
    position += 1
  return None


def tagged(text: str, tag: str = 'answer') -> str | None:
  """What the last <tag>..</tag> holds; None without a whole one."""
  before, closed, _ = text.rpartition(f'</{tag}>')
  _, opened, inside = before.rpartition(f'<{tag}>')
  return inside.strip() if closed and opened else None


def math(text: str) -> str | None:
  """The mathematical answer that a text gives.

  The last box. Without any: a text that is one formula; else the last formula
  between dollars or brackets, if no number follows it; else the last number.
  Several that are listed, as in "7 or 12", are one answer, so naming more does
  not help. None where there is nothing, or the last box never closes.
  """
  spoken = said(text)
  if spoken is None:
    return None
  if any(mark in spoken for mark in _BOXES):
    return boxed(spoken)
  tail = (tagged(spoken) or spoken)[-_TAIL:].replace('**', '').strip()
  if not tail:
    return None
  if _is_formula(tail):
    return tail.strip('$')
  numbers = list(_NUMBER.finditer(tail))
  formulas = list(_FORMULA.finditer(tail))
  if formulas and (not numbers or numbers[-1].start() < formulas[-1].end()):
    return _listed(tail, formulas)
  return _listed(tail, numbers)


def has_words(formula: str) -> bool:
  """Whether there is a word in it that is no command of LaTeX."""
  return bool(_WORD.search(_ENVIRONMENT.sub('', formula)))


def _is_formula(text: str) -> bool:
  inside = text.strip('$')
  plain = '$' not in inside and '\n' not in inside
  return plain and not has_words(inside) and not _SPOKEN.search(inside)


def _listed(text: str, found: list[re.Match]) -> str | None:
  """The last of what was found, with those that it is listed with."""
  kept = found[-1:]
  for each in reversed(found[:-1]):
    if not _BETWEEN.fullmatch(text, each.end(), kept[0].start()):
      break
    kept.insert(0, each)
  several = len(kept) > 1
  inside = [next(filter(None, each.groups()), each.group()) for each in kept]
  # A comma within a number would read as one more of the list.
  plain = [x.replace(',', '') if several else x for x in inside]
  return ', '.join(plain) or None
