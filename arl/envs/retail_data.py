"""The database of a retail desk: made up, read and written.

A database is JSON: `users` by id, each a list of order ids; `orders` by id,
each with user, status, zip and a list of items; `items` by id, each [product,
color, whether it is in stock]. A call is (tool, *arguments).
"""

import copy
import random
import re
from collections.abc import Sequence
from typing import Any

PRODUCTS = ('cap', 'mug', 'lamp', 'rug', 'bag', 'coat', 'tent', 'vase')
COLORS = ('red', 'blue', 'pink', 'gold', 'gray', 'tan')
STATUSES = ('pending', 'shipped', 'delivered')
_VARIANTS = 3
_ZIP = re.compile('[0-9]{3}')

Database = dict[str, Any]
Call = Sequence[str]


def make(users: int, orders: int, items: int, rng: random.Random) -> Database:
  """A database of so many users, orders of each, and items of each order.

  No user has a product twice.
  """
  numbers = [str(n) for n in range(1, 100)]
  take = lambda mark, count: [mark + n for n in rng.sample(numbers, count)]
  stock: dict[str, list[Any]] = {}
  variants: dict[str, list[str]] = {name: [] for name in PRODUCTS}
  ids = iter(take('i', len(PRODUCTS) * _VARIANTS))
  for product in PRODUCTS:
    for color in rng.sample(COLORS, _VARIANTS):
      variants[product].append(next(ids))
      stock[variants[product][-1]] = [product, color, rng.random() < 0.7]
  held: dict[str, list[str]] = {}
  placed: dict[str, dict[str, Any]] = {}
  order_ids = iter(take('o', users * orders))
  for user in take('u', users):
    products = iter(rng.sample(PRODUCTS, orders * items))
    held[user] = [next(order_ids) for _ in range(orders)]
    for order in held[user]:
      placed[order] = {
        'user': user,
        'status': rng.choice(STATUSES),
        'zip': str(rng.randint(100, 999)),
        'items': [rng.choice(variants[next(products)]) for _ in range(items)],
      }
  return {'users': held, 'orders': placed, 'items': stock}


def fault(database: Database, call: Call) -> str:
  """Why a database cannot serve a call; '' if it can."""
  tool, name, *rest = call
  orders, items = database['orders'], database['items']
  if tool == 'get_user':
    return '' if name in database['users'] else f'no user {name[:12]}'
  if tool == 'get_product':
    return '' if name in PRODUCTS else f'no product {name[:12]}'
  if name not in orders:
    return f'no order {name[:12]}'
  if (
    tool in ('return_item', 'exchange') and rest[0] not in orders[name]['items']
  ):
    return f'no item {rest[0][:12]} in {name}'
  if tool == 'exchange' and rest[1] not in items:
    return f'no item {rest[1][:12]}'
  if tool == 'set_zip' and not _ZIP.fullmatch(rest[0]):
    return 'a zip has three digits'
  return ''


def read(database: Database, call: Call) -> str:
  """What a tool that changes nothing tells."""
  tool, name = call
  items = database['items']
  match tool:
    case 'get_user':
      return ' '.join(database['users'][name])
    case 'get_order':
      order = database['orders'][name]
      held = [f'{id} {items[id][1]} {items[id][0]}' for id in order['items']]
      return f'{order["status"]} {order["zip"]}: {", ".join(held)}'
    case _:
      of = {id: each for id, each in items.items() if each[0] == name}
      return ', '.join(
        f'{id} {color}' + ' out' * (not left)
        for id, (_, color, left) in of.items()
      )


def written(database: Database, calls: Sequence[Call]) -> Database:
  """The database after writes that it can serve, in order."""
  orders = copy.deepcopy(database['orders'])
  for tool, name, *rest in calls:
    match tool:
      case 'cancel':
        orders[name]['status'] = 'cancelled'
      case 'set_zip':
        orders[name]['zip'] = rest[0]
      case 'return_item':
        orders[name]['items'].remove(rest[0])
        orders[name].setdefault('returned', []).append(rest[0])
      case _:
        at = orders[name]['items'].index(rest[0])
        orders[name]['items'][at] = rest[1]
  return {**database, 'orders': orders}
