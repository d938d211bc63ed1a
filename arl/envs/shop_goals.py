"""What a task of the shop asks for, and which item answers it best."""

import random

from arl import episode
from arl.envs import shop_catalogue
from arl.rewards import shop


def catalogue(task: episode.Task) -> shop_catalogue.Catalogue:
  """What the shop of a task sells."""
  return shop_catalogue.make(*_catalogue_of(task))


def _catalogue_of(task: episode.Task) -> tuple[int, int, int]:
  shop = task.data['shop']
  return shop['products'], shop['options'], shop['seed']


def ask(empty: episode.Task, rng: random.Random) -> episode.Task:
  """A task that asks for some item, or for one like it.

  Args:
    empty: a task that has the shop alone.
    rng: what draws.
  """
  items = catalogue(empty).items
  id = rng.choice(tuple(items))
  _, product, values = items[id]
  attributes = rng.sample(product.attributes, rng.randint(1, 2))
  options = {name: rng.choice(each) for name, each in values.items()}
  price = int(product.price) + rng.randint(0, 9)
  asked = ' '.join([*attributes, product.name])
  prompt = f'buy {", ".join([asked, *options.values()])}, max ${price}'
  data = {
    'shop': empty.data['shop'], 'item': id, 'attributes': attributes,
    'options': options, 'price': price,
  }  # fmt: skip
  return empty._replace(prompt=prompt, data=data)


def goal(task: episode.Task) -> shop.Goal:
  """What is graded."""
  data = task.data
  product = catalogue(task).items[data['item']].product
  return shop.Goal(product, data['attributes'], data['options'], data['price'])


def query(task: episode.Task) -> str:
  """The attributes and the kind that are asked for."""
  product = catalogue(task).items[task.data['item']].product
  return ' '.join([*task.data['attributes'], product.name])


def found(task: episode.Task, words: str) -> list[str]:
  """The ids of all results of a search."""
  most = task.data['shop']['per_page'] * task.data['shop']['pages']
  return list(shop_catalogue.find(_catalogue_of(task), words, most))


def best(task: episode.Task) -> str | None:
  """The first item found by `query` that earns 1 with the options asked for."""
  wanted, items = goal(task), catalogue(task).items
  for id in found(task, query(task)):
    offered = items[id].options
    if not all(v in offered[name] for name, v in wanted.options.items()):
      continue
    if shop.web_shop(items[id].product, wanted.options, wanted) == 1.0:
      return id
  return None


def target(task: episode.Task) -> str:
  """`best`, where there is one.

  Raises:
    ValueError: no item that the search finds earns 1.
  """
  id = best(task)
  if id is None:
    raise ValueError(f'shop: no item that is found fits {task.prompt!r}.')
  return id
