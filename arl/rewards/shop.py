"""How well a product fits what was to be bought (WebShop)."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_ALIKE = 0.85
_WORD = re.compile(r'[a-z0-9]+')


class Product(NamedTuple):
  """Something that can be bought.

  Attributes:
    name: its title.
    category: from wide to narrow.
    query: the search that it belongs to.
    attributes: what it is.
    text: its description, with all that is said of it.
    price: what it costs, with the options chosen.
  """

  name: str
  category: Sequence[str]
  query: str
  attributes: Sequence[str]
  text: str
  price: float


class Goal(NamedTuple):
  """What was to be bought.

  Attributes:
    product: the one that the instruction was written for.
    attributes: that are asked for.
    options: that are asked for, by name.
    price: the most it may cost; None for any.
  """

  product: Product
  attributes: Sequence[str]
  options: Mapping[str, str]
  price: float | None


def alike(ours: str, theirs: str) -> float:
  """How alike the sets of words of two texts are, 0 to 1.

  The best match of three texts: the words in common, and these with the rest of
  either side. So a text that holds all words of another is like it.
  """
  left, right = (set(_WORD.findall(each.lower())) for each in (ours, theirs))
  common = ' '.join(sorted(left & right))
  sides = [
    ' '.join([common, *sorted(each - (left & right))]).strip()
    for each in (left, right)
  ]
  if not all(sides):
    return 0.0
  pairs = [tuple(sides)] + [(common, side) for side in sides if common]
  return max(difflib.SequenceMatcher(None, a, b).ratio() for a, b in pairs)


def kind(bought: Product, goal: Goal) -> float:
  """Whether it is the kind of thing asked for: 1, 0.5, 0.1 or 0.

  By the share of the words of the wanted name that are in this one's: 0 of
  none, 0.1 below a tenth. Else 1 if it is over a fifth, or the query or two
  levels of the category agree; 0.5 if not.
  """
  wanted = set(_WORD.findall(goal.product.name.lower()))
  ours = set(_WORD.findall(bought.name.lower()))
  share = len(wanted & ours) / len(wanted) if wanted else 0.2
  if share < 0.1:
    return 0.1 if share else 0.0
  near = len(set(bought.category) & set(goal.product.category)) >= 2
  same = bought.query == goal.product.query
  return 1.0 if same or near or share > 0.2 else 0.5


def _said(bought: Product, wanted: str) -> bool:
  return wanted.lower() in f'{bought.name}\n{bought.text}'.lower()


def _has_attribute(bought: Product, wanted: str) -> bool:
  known = any(alike(each, wanted) > _ALIKE for each in bought.attributes)
  return known or _said(bought, wanted)


def _has_option(chosen: Mapping[str, str], name: str, wanted: str) -> bool:
  if name.lower() == 'size':
    values = {n.lower(): value.lower() for n, value in chosen.items()}
    return values.get('size') == wanted.lower()
  return any(alike(value, wanted) > _ALIKE for value in chosen.values())


def web_shop(bought: Product, chosen: Mapping[str, str], goal: Goal) -> float:
  """How well a purchase fits the goal, 0 to 1.

  kind * (attributes that fit + options that fit + whether the price does) /
  (attributes + options + 1) (WebShop, arXiv:2207.01206). We differ from its
  code in that names are compared by all words, where it takes the nouns that a
  parser finds; that colors are compared as they are written; and that of the
  options those asked for are counted, as in the paper, where the code counts
  those chosen and can exceed 1.

  Args:
    bought: the product.
    chosen: its options, by name.
    goal: what was asked for.
  """
  fits = sum(_has_attribute(bought, each) for each in goal.attributes)
  fits += sum(
    _has_option(chosen, name, each) for name, each in goal.options.items()
  )
  fits += goal.price is None or bought.price <= goal.price
  asked = len(goal.attributes) + len(goal.options) + 1
  return kind(bought, goal) * fits / asked
