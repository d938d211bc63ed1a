"""What formulas are written with, and what of it means nothing."""

import re

from arl.rewards import answers

_WRAPPED = re.compile(
  r'\\(?:text(?:bf|it|rm|tt)?|math(?:rm|bf|it|sf|tt|bb|cal|frak)|boldsymbol'
  r'|operatorname|mbox)\s*\{([^{}]*)\}'
)
# What is measured, after a number: in a font of text, a word of its own, or one
# of these. A letter alone is a variable.
_UNIT = re.compile(
  r'(.*\d[^A-Za-z]*?)(?:'
  r'(?:\\[,;! ]|\s)*\\(?:text|mbox|textrm)\{\s*[A-Za-z][A-Za-z ./]*\}'
  r'|(?:\\[,;! ]|\s)*\\mathrm\{\s*[A-Za-z][A-Za-z ./]+\}'
  r'|\s*(?:[cmk]m|[km]g|ml|ft|hrs?|mins?|secs?|mph)'
  r'|\s+[A-Za-z]{3,}(?:\s+[A-Za-z]+)*'
  r')(?:\^\{?[23]\}?)?',
  re.DOTALL,
)
_SCIENTIFIC = re.compile(r'([-+]?\d+(?:\.\d+)?)[eE]([-+]?\d{1,3})')
_AROUND = re.compile(r'\\[\[(](.*)\\[\])]', re.DOTALL)
_REPEATING = re.compile(r'(\d*)\.(\d*)\\overline\{(\d{1,9})\}')
_BUILT = re.compile(r'\\\{[A-Za-z](?::|\||\\mid\s)(.*)\\\}')
# The space that ends a command before a letter is kept.
_SPACE = re.compile(
  r'\\(?:left|right)(?![a-z])\s*|(\\[A-Za-z]+)\s+(?=[A-Za-z])|\\[,;!: ]|~|\s'
)


def plain(text: str) -> str:
  """A formula without units, fonts, space and what else means nothing.

  Of one with words in it the space is kept.
  """
  # Loaded only where it is used: it takes half a second.
  from latex2sympy2_extended import math_normalization as normalization

  config = normalization.NormalizationConfig(
    basic_latex=True,
    units=False,
    malformed_operators=True,
    nits=True,
    boxed='none',
    equations=False,
  )
  text = text.strip().strip('$').rstrip('.').strip()
  if around := _AROUND.fullmatch(text):
    text = around[1]
  if measured := _UNIT.fullmatch(text):
    text = measured[1]
  text = normalization.normalize_latex(text, config) or text
  while (unwrapped := _WRAPPED.sub(r'\1', text)) != text:
    text = unwrapped
  if power := _SCIENTIFIC.fullmatch(text):
    text = f'{power[1]}*10^{{{power[2]}}}'
  if repeating := _REPEATING.fullmatch(text):
    text = _fraction(*repeating.groups())
  if answers.has_words(text):
    return text
  text = _SPACE.sub(lambda m: f'{m[1]} ' if m[1] else '', text)
  return built[1] if (built := _BUILT.fullmatch(text)) else text


def _fraction(whole: str, once: str, again: str) -> str:
  """A decimal whose last digits repeat, as the fraction that it is."""
  nines = (10 ** len(again) - 1) * 10 ** len(once)
  top = int(f'{whole}{once}{again}') - int(f'{whole}{once}' or 0)
  return rf'\frac{{{top}}}{{{nines}}}'
