"""A web shop as text: search, look at items, choose options, buy (WebShop).

`search[soft warm cap]` lists items, `b17 soft warm cap $12`, some a page;
`click[b17]` opens one; its options are chosen by `click[red]` and marked, as in
`color *red blue`; `click[next]`, `click[back]` and `click[buy]` do what they
say. What is for sale is drawn from a seed (`arl.envs.shop_catalogue`). Buying
ends the episode and earns `rewards.shop.web_shop`, from 0 to 1, by kind,
attributes, options and price.
"""

import functools
import random
import re
from typing import NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, shop_catalogue, shop_goals
from arl.rewards import shop as shop_rewards

RULES = (
  'Buy what is asked for. Say search[words] or click[button]. Buttons are the '
  'item ids, next, back, the options of an item and buy.'
)
START, RESULTS, ITEM, BOUGHT = 'start', 'results', 'item', 'bought'
_LONGEST = 200  # characters of a query that are read
_ACTION = re.compile(r'(search|click)\[([^\[\]]*)\]')


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    turns: actions so far.
    page: START, RESULTS, ITEM or BOUGHT.
    query: what was searched for.
    number: of the page of results, from 0.
    item: the id of the item looked at.
    chosen: the options chosen of it: (name, value), in the order of the page.
  """

  task: episode.Task
  turns: int = 0
  page: str = START
  query: str = ''
  number: int = 0
  item: str = ''
  chosen: tuple[tuple[str, str], ...] = ()


def make(
  *,
  products: int = 120,
  options: int = 1,
  per_page: int = 2,
  pages: int = 2,
  seed: int = 0,
  fault: float = 0.25,
  system: str = '',
) -> base.Env:
  """The shop environment; the oracle needs pages + options + 2 turns.

  Every task has an item that earns 1. No instruction of one split occurs in the
  other.

  Args:
    products: items for sale, 60 or more.
    options: that an item has: 1, its color, or 2, its size too.
    per_page: results on a page.
    pages: of results, at most.
    seed: of the catalogue.
    fault: how often the demonstrator presses any button, or buys at once.
    system: a system message, such as RULES.
  """
  if products < 60:
    raise ValueError(f'shop: products is {products}; give 60 or more.')
  if options not in (1, 2):
    raise ValueError(f'shop: options is {options}; give 1 or 2.')
  if per_page < 1 or pages < 1:
    raise ValueError(
      f'shop: per_page {per_page} and pages {pages}; give 1 or more.'
    )
  base.require_probabilities('shop', fault=fault)
  shop = {
    'products': products, 'options': options, 'seed': seed,
    'per_page': per_page, 'pages': pages,
  }  # fmt: skip
  return base.Env(
    task=functools.partial(_task, shop, system),
    reset=State,
    step=_step,
    oracle=oracle,
    noisy=functools.partial(_noisy, fault),
    anchor=render,
  )


def render(state: State) -> str:
  """The page of a state."""
  match state.page:
    case 'results':
      lines = [f'{id} {_label(state, id)}' for id in _listed(state)]
      return '\n'.join([*lines, ' '.join(_turning(state))])
    case 'item':
      lines = [_label(state, state.item)]
      options = shop_goals.catalogue(state.task).items[state.item].options
      for name, values in options.items():
        marks = ['*' * ((name, v) in state.chosen) + v for v in values]
        lines.append(' '.join([name, *marks]))
      return '\n'.join([*lines, 'buy back'])
    case 'bought':
      return 'bought'
    case _:
      return 'search[words]'


def buttons(state: State) -> list[str]:
  """What can be clicked on the page of a state."""
  match state.page:
    case 'results':
      return [*_listed(state), *_turning(state)]
    case 'item':
      item = shop_goals.catalogue(state.task).items[state.item]
      values = [v for each in item.options.values() for v in each]
      return [*values, 'buy', 'back']
    case _:
      return []


def at_random(state: State, rng: np.random.Generator) -> str:
  """Any button of the page, or a search for any kind of thing."""
  shown = buttons(state)
  if not shown:
    kinds = shop_catalogue.KINDS
    return f'search[{kinds[rng.integers(len(kinds))]}]'
  return f'click[{shown[rng.integers(len(shown))]}]'


def oracle(state: State) -> str:
  """Goes to the first item that earns 1, chooses its options, and buys."""
  query, wanted = shop_goals.query(state.task), dict(state.task.data['options'])
  best = shop_goals.target(state.task)
  if state.page == START:
    return f'search[{query}]'
  if state.page == RESULTS and state.query == query:
    if best in _listed(state):
      return f'click[{best}]'
    ahead = _results(state).index(best) // state.task.data['shop']['per_page']
    return f'click[{"next" if ahead > state.number else "back"}]'
  if state.page == RESULTS or state.item != best:
    return 'click[back]'
  missing = [v for name, v in wanted.items() if (name, v) not in state.chosen]
  return f'click[{missing[0] if missing else "buy"}]'


def _task(
  shop: dict[str, int], system: str, split: str, index: int
) -> episode.Task:
  shape = '/'.join(f'{name}={value}' for name, value in shop.items())
  id = base.task_id(f'shop/{shape}', split, index)
  rng = random.Random(id)
  empty = episode.Task(id, '', {'shop': shop}, system)
  drawn: dict[str, episode.Task] = {}

  def propose() -> str:
    task = shop_goals.ask(empty, rng)
    while shop_goals.best(task) is None:
      task = shop_goals.ask(empty, rng)
    drawn[task.prompt] = task
    return task.prompt

  return drawn[base.draw(split, propose)]


def _results(state: State) -> list[str]:
  return shop_goals.found(state.task, state.query)


def _listed(state: State) -> list[str]:
  """The ids on the page of results."""
  per_page = state.task.data['shop']['per_page']
  start = state.number * per_page
  return _results(state)[start : start + per_page]


def _turning(state: State) -> list[str]:
  per_page = state.task.data['shop']['per_page']
  more = (state.number + 1) * per_page < len(_results(state))
  return ['next', 'back'] if more else ['back']


def _label(state: State, id: str) -> str:
  item = shop_goals.catalogue(state.task).items[id]
  return f'{item.title} ${item.product.price:g}'


def _step(state: State, text: str) -> tuple[State, episode.Turn]:
  if state.page == BOUGHT:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  after = state._replace(turns=state.turns + 1)
  action = _ACTION.fullmatch(text.strip())
  if not action:
    return after, episode.Turn('error: say search[words] or click[button]')
  verb, said = action[1], action[2].strip()
  if verb == 'search':
    if state.page != START:
      return after, episode.Turn('error: no search here; click[back]')
    after = after._replace(page=RESULTS, query=said[:_LONGEST], number=0)
    return after, episode.Turn(render(after))
  if said not in buttons(state):
    shown = ''.join(c if ' ' <= c <= '~' else '?' for c in said[:12])
    return after, episode.Turn(f'error: no button {shown} here')
  after = _clicked(after, said)
  if after.page != BOUGHT:
    return after, episode.Turn(render(after))
  product = shop_goals.catalogue(state.task).items[state.item].product
  score = shop_rewards.web_shop(
    product, dict(state.chosen), shop_goals.goal(state.task)
  )
  return after, episode.Turn('', score, True)


def _clicked(state: State, button: str) -> State:
  """The state after a click on a button of its page."""
  if state.page == RESULTS:
    match button:
      case 'next':
        return state._replace(number=state.number + 1)
      case 'back':
        return state._replace(page=START, query='', number=0)
      case _:
        return state._replace(page=ITEM, item=button)
  match button:
    case 'buy':
      return state._replace(page=BOUGHT)
    case 'back':
      return state._replace(page=RESULTS, item='', chosen=())
  options = shop_goals.catalogue(state.task).items[state.item].options
  chosen = dict(state.chosen)
  chosen.update({name: button for name, v in options.items() if button in v})
  ordered = tuple((name, chosen[name]) for name in options if name in chosen)
  return state._replace(chosen=ordered)


def _noisy(fault: float, state: State, rng: np.random.Generator) -> str:
  if rng.random() >= fault:
    return oracle(state)
  hasty = state.page == ITEM and rng.random() < 0.5
  return 'click[buy]' if hasty else at_random(state, rng)
