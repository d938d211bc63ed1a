"""A small catalogue made up from a seed: what a shop sells, and its search."""

import functools
import random
from collections.abc import Mapping
from typing import NamedTuple

from arl.envs import bm25
from arl.rewards import shop

OPTIONS = ('color', 'size')
_DEPARTMENTS = {
  'wear': ('cap', 'coat', 'belt', 'sock'),
  'home': ('lamp', 'rug', 'vase', 'mug'),
  'gear': ('tent', 'rope', 'bag', 'boot'),
}
_ATTRIBUTES = (
  'soft', 'warm', 'light', 'plain', 'thin', 'tough', 'woven', 'round', 'dry',
  'quick',
)  # fmt: skip
_VALUES = {
  'color': ('red', 'blue', 'pink', 'gold', 'gray', 'tan'),
  'size': ('s', 'm', 'l', 'xl'),
}
KINDS = tuple(kind for kinds in _DEPARTMENTS.values() for kind in kinds)


class Item(NamedTuple):
  """Something on sale.

  Attributes:
    title: what is shown: two attributes and the kind.
    product: what is graded.
    options: the values to choose from, by name.
  """

  title: str
  product: shop.Product
  options: Mapping[str, tuple[str, ...]]


class Catalogue(NamedTuple):
  """What a shop sells: items by their id, and an index of their titles."""

  items: Mapping[str, Item]
  lookup: bm25.Index


@functools.lru_cache(maxsize=16)
def make(products: int, options: int, seed: int) -> Catalogue:
  """The catalogue of a seed.

  Args:
    products: how many items; kinds take turns.
    options: how many each has, the first of OPTIONS.
    seed: what it is drawn from.
  """
  rng = random.Random(f'shop/{products}/{options}/{seed}')
  items = {
    f'b{number}': _item(KINDS[number % len(KINDS)], options, rng)
    for number in range(products)
  }
  return Catalogue(items, bm25.build([each.title for each in items.values()]))


def _item(kind: str, options: int, rng: random.Random) -> Item:
  attributes = rng.sample(_ATTRIBUTES, 2)
  title = f'{" ".join(attributes)} {kind}'
  department = next(d for d, kinds in _DEPARTMENTS.items() if kind in kinds)
  price = float(rng.randint(5, 60))
  product = shop.Product(
    kind, (department, kind), kind, attributes, title, price
  )
  values = {
    name: tuple(rng.sample(_VALUES[name], rng.randint(1, 3)))
    for name in OPTIONS[:options]
  }
  return Item(title, product, values)


@functools.lru_cache(maxsize=4096)
def find(
  catalogue: tuple[int, int, int], query: str, most: int
) -> tuple[str, ...]:
  """The ids of the items that fit a query best.

  Args:
    catalogue: products, options and seed, as `make` takes them.
    query: words.
    most: how many ids, at most.
  """
  items, lookup = make(*catalogue)
  ids = tuple(items)
  return tuple(ids[place] for place in bm25.top(lookup, query, most))
