"""What a retail desk is asked for, and the policy that it keeps to."""

import json
import random

from arl import episode
from arl.envs import base, retail_data

POLICY = (
  'You serve a user of a shop. First ask who the user is, and look the user up '
  'with get_user before any other tool. Touch orders of this user only. Only '
  'pending orders can be cancelled or sent to another zip; only delivered '
  'items can be returned, or exchanged for the same product in another color '
  'that is not out. Before a change ask for a yes that names the tool and its '
  'ids, such as: cancel o3? If the policy forbids it, as the order shows, say '
  'no, and again.\n'
  'Tools: get_user(user) get_order(order) get_product(product) cancel(order) '
  'set_zip(order,zip) return_item(order,item) exchange(order,item,new)'
)
# Write -> the status that an order must have for it.
WRITES = {
  'cancel': 'pending',
  'set_zip': 'pending',
  'return_item': 'delivered',
  'exchange': 'delivered',
}


def draw(
  shape: tuple[int, int, int],
  share: float,
  system: str,
  split: str,
  index: int,
) -> episode.Task:
  """A task of a desk of so many users, orders of each and items of each order.

  The share of them is what the policy forbids.
  """
  users, orders, items = shape
  family = (
    f'retail/users={users}/orders={orders}/items={items}/forbidden={share}'
  )
  id = base.task_id(family, split, index)
  rng = random.Random(id)
  tool = rng.choice(tuple(WRITES))
  barred = rng.random() < share

  def propose() -> str:
    while True:
      database = retail_data.make(users, orders, items, rng)
      user = rng.choice(tuple(database['users']))
      prompt, wanted = _request(database, user, tool, rng)
      if bool(forbidden(database, user, wanted)) == barred:
        data = {'database': database, 'user': user, 'wanted': wanted}
        return json.dumps([prompt, data])

  prompt, data = json.loads(base.draw(split, propose))
  return episode.Task(id, prompt, data, system)


def _request(
  database: retail_data.Database, user: str, tool: str, rng: random.Random
) -> tuple[str, list[str]]:
  """What a user says, and the write that it asks for."""
  order = rng.choice(database['users'][user])
  item = rng.choice(database['orders'][order]['items'])
  product, color, _ = database['items'][item]
  match tool:
    case 'cancel':
      return f'cancel my {product}', [tool, order]
    case 'set_zip':
      code = str(rng.randint(100, 999))
      while code == database['orders'][order]['zip']:
        code = str(rng.randint(100, 999))
      return f'send my {product} to {code}', [tool, order, code]
    case 'return_item':
      return f'return my {product}', [tool, order, item]
  others = {
    id: each[1]
    for id, each in database['items'].items()
    if each[0] == product and id != item
  }
  new = rng.choice(tuple(others))
  return f'swap my {product} for {others[new]}', [tool, order, item, new]


def gold(task: episode.Task) -> list[list[str]]:
  """The writes that a task should lead to: one, or none if it is forbidden."""
  data = task.data
  barred = forbidden(data['database'], data['user'], data['wanted'])
  return [] if barred else [data['wanted']]


def forbidden(
  database: retail_data.Database, user: str, call: retail_data.Call
) -> str:
  """Why the policy forbids a write, agreed on or not; '' if it may be."""
  tool, name, *rest = call
  order, items = database['orders'][name], database['items']
  if order['user'] != user:
    return 'the order of another user'
  if order['status'] != WRITES[tool]:
    return f'{tool} of an order that is {order["status"]}'
  if tool == 'exchange':
    (old, _, _), (new, _, left) = items[rest[0]], items[rest[1]]
    if old != new or not left:
      return 'an exchange for another product, or for what is out of stock'
  return ''
