"""A retail desk: serve a user by tools, and keep to a written policy.

The policy model is the clerk. The user says what is wanted, `cancel my mug`,
and answers what is said; who the user is, is told when asked. Tools read and
write a database; `retail_policy.POLICY` says what they are for. A text with a
bracket is a call, `get_order(o3)`, any other is said to the user, whose answer
is a function of the state and of that text. A write is agreed on once the user
has said yes to a question that names it, `cancel o3?`, and nothing else.

The episode ends when the user leaves: after a write, or after two refusals. It
earns 1 if the database is the one that the right writes lead to, and nothing
that was done broke the policy, ever; else 0. After the tau-bench of
arXiv:2406.12045, whose user is a model.
"""

import functools
import re
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, calls, retail_data, retail_policy

_ID = re.compile(r'\b(?:[uoi][0-9]+|[0-9]{3})\b')
_WORD = re.compile(r'[a-z_]+')
_LONGEST = 200
_NO = frozenset({'no', 'not', 'cannot', 'sorry'})


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    turns: actions so far.
    told: whether the user has said who they are.
    known: whether the user was looked up since.
    seen: orders and products looked at, in order.
    agreed: whether the user has said yes to what they want.
    refusals: how often that was refused.
    writes: calls that changed the database, in order.
    broken: what was done against the policy, in order.
    last: the last observation, '' before the first.
    over: whether the user has left.
  """

  task: episode.Task
  turns: int = 0
  told: bool = False
  known: bool = False
  seen: tuple[str, ...] = ()
  agreed: bool = False
  refusals: int = 0
  writes: tuple[tuple[str, ...], ...] = ()
  broken: tuple[str, ...] = ()
  last: str = ''
  over: bool = False


def make(
  *,
  users: int = 3,
  orders: int = 2,
  items: int = 1,
  forbidden: float = 0.25,
  fault: float = 0.2,
  system: str = '',
) -> base.Env:
  """The retail environment; the oracle needs orders + 6 turns.

  Cancelling, another zip, returns and exchanges are asked for equally often.

  Args:
    users: in the database.
    orders: of each user.
    items: of each order; no more than 8 of a user.
    forbidden: the share of requests that the policy forbids.
    fault: how often the demonstrator errs: it forgets to ask, asks for or does
      the wrong thing, or gives up.
    system: a system message, such as retail_policy.POLICY.
  """
  if not 1 <= users <= 20 or not 1 <= orders <= 4 or items < 1:
    raise ValueError(
      f'retail: {users} users, {orders} orders, {items} items; give 1 to 20, '
      '1 to 4, and 1 or more.'
    )
  if orders * items > len(retail_data.PRODUCTS):
    raise ValueError(
      f'retail: {orders} orders of {items} items; a user has '
      f'{len(retail_data.PRODUCTS)} or fewer.'
    )
  base.require_probabilities('retail', forbidden=forbidden, fault=fault)
  return base.Env(
    task=functools.partial(
      retail_policy.draw, (users, orders, items), forbidden, system
    ),
    reset=State,
    step=_step,
    oracle=oracle,
    noisy=functools.partial(_noisy, fault),
    anchor=lambda state: state.last or state.task.prompt,
    tools=TOOLS,
  )


def _tool(name: str, description: str, *arguments: str) -> calls.Tool:
  schema: dict[str, Any] = {
    'type': 'object',
    'properties': {each: {'type': 'string'} for each in arguments},
    'required': list(arguments),
  }
  return calls.Tool(name, description, schema, lambda **_: '')


TOOLS = (
  _tool('get_user', 'the orders of a user', 'user'),
  _tool('get_order', 'status, zip and items of an order', 'order'),
  _tool('get_product', 'colors of a product', 'product'),
  _tool('cancel', 'cancels an order', 'order'),
  _tool('set_zip', 'sends an order elsewhere', 'order', 'zip'),
  _tool('return_item', 'takes an item back', 'order', 'item'),
  _tool('exchange', 'exchanges an item', 'order', 'item', 'new'),
)


def at_random(state: State, rng: np.random.Generator) -> str:
  """A call with ids that exist, or something said, without a thought."""
  database = state.task.data['database']
  pick = lambda values: list(values)[rng.integers(len(values))]
  if rng.random() < 0.4:
    return pick(('who are you?', 'no', 'bye'))
  tool = pick(TOOLS)
  values = {
    'user': database['users'], 'order': database['orders'],
    'product': retail_data.PRODUCTS, 'item': database['items'],
    'new': database['items'], 'zip': ('123', '456'),
  }  # fmt: skip
  names = tool.parameters['properties']
  return f'{tool.name}({",".join(pick(values[name]) for name in names)})'


def _step(state: State, text: str) -> tuple[State, episode.Turn]:
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  text, after = text.strip(), state._replace(turns=state.turns + 1)
  if '(' in text:
    after = _call(after, text)
  elif not text or len(text) > _LONGEST or not text.isprintable():
    after = after._replace(
      last=f'error: say something of 1 to {_LONGEST} letters, or call a tool'
    )
  else:
    after = _answer(after, text.lower())
  if after.over:
    return after, episode.Turn('', _grade(after), True)
  return after, episode.Turn(after.last)


def _call(state: State, text: str) -> State:
  """The state after a tool was called."""
  name = text.partition('(')[0].strip()
  if name not in {tool.name for tool in TOOLS}:
    return state._replace(last='error: no such tool')
  call = calls.parse(text, TOOLS)
  if isinstance(call, calls.Fault):
    return state._replace(last=call.error)
  made = (call.name, *call.arguments.values())
  data = state.task.data
  database = retail_data.written(data['database'], state.writes)
  fault = retail_data.fault(database, made)
  if fault:
    shown = ''.join(c if ' ' <= c <= '~' else '?' for c in fault)
    return state._replace(last=f'error: {shown}')
  broken = _broken(state, database, made)
  if broken:
    state = state._replace(broken=(*state.broken, broken))
  if call.name in retail_policy.WRITES:
    return state._replace(writes=(*state.writes, made), last='ok')
  if call.name == 'get_user':
    mine = made[1] == data['user'] and state.told
    state = state._replace(known=state.known or mine)
  else:
    state = state._replace(seen=(*state.seen, made[1]))
  return state._replace(last=retail_data.read(database, made))


def _broken(
  state: State, database: retail_data.Database, call: retail_data.Call
) -> str:
  """What of the policy a call breaks; '' if nothing."""
  data, (tool, name, *_) = state.task.data, call
  if tool == 'get_user':
    mine = state.told and name == data['user']
    return '' if mine else 'looked up a user who did not ask for it'
  if not state.known:
    return f'{tool} before the user was looked up'
  if tool == 'get_product':
    return ''
  if database['orders'][name]['user'] != data['user']:
    return 'the order of another user'
  if tool == 'get_order':
    return ''
  if not state.agreed or list(call) != data['wanted']:
    return f'{tool} that was not agreed on'
  return retail_policy.forbidden(database, data['user'], call)


def _answer(state: State, text: str) -> State:
  """The state after the user has answered what was said."""
  data, words = state.task.data, set(_WORD.findall(text))
  asked = words & retail_policy.WRITES.keys()
  if not state.told:
    return state._replace(told=True, last=f'i am {data["user"]}')
  if text.endswith('?') and asked:
    tool, *ids = data['wanted']
    if asked == {tool} and set(_ID.findall(text)) == set(ids):
      return state._replace(agreed=True, last='yes')
    return state._replace(last=f'no, {state.task.prompt}')
  if state.writes:
    return state._replace(last='thanks, bye', over=True)
  if words & _NO:
    state = state._replace(refusals=state.refusals + 1)
    if state.refusals == 2:
      if data['wanted'][1] not in state.seen:
        rash = 'refused before the order was looked at'
        state = state._replace(broken=(*state.broken, rash))
      return state._replace(last='ok, bye', over=True)
    return state._replace(last=f'please {state.task.prompt}')
  return state._replace(last=state.task.prompt)


def oracle(state: State) -> str:
  """Asks, looks the user and then the orders up, agrees, writes, and leaves."""
  data, (tool, order, *rest) = state.task.data, state.task.data['wanted']
  if not state.told:
    return 'who are you?'
  if not state.known:
    return f'get_user({data["user"]})'
  if state.writes:
    return 'bye'
  orders = data['database']['users'][data['user']]
  for each in orders[: orders.index(order) + 1]:
    if each not in state.seen:
      return f'get_order({each})'
  if tool == 'exchange':
    product = data['database']['items'][rest[0]][0]
    if product not in state.seen:
      return f'get_product({product})'
  if not retail_policy.gold(state.task):
    return 'no'
  if not state.agreed:
    return f'{" ".join(data["wanted"])}?'
  return f'{tool}({",".join([order, *rest])})'


def _noisy(fault: float, state: State, rng: np.random.Generator) -> str:
  """Errs as a hasty clerk does; some errors the user corrects, some not."""
  if rng.random() >= fault:
    return oracle(state)
  tool, *ids = state.task.data['wanted']
  slips = f'{tool}({",".join(ids)})', f'{tool} {ids[0]}?', 'no'
  choice = rng.integers(len(slips) + 1)
  return slips[choice] if choice < len(slips) else at_random(state, rng)


def _grade(state: State) -> float:
  database = state.task.data['database']
  ours = retail_data.written(database, state.writes)
  theirs = retail_data.written(database, retail_policy.gold(state.task))
  return float(ours == theirs and not state.broken)
