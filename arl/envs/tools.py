"""Questions that only a tool can answer, over several turns, as short text.

One third are sums, `what is 57+48?`, solved by `calc(57+48)` -> `105` ->
`=105`. Two thirds are look-ups behind 0 or more pointers, `pin of abc?`, solved
by `get(abc.pin)` -> `see xyz` -> `get(xyz.pin)` -> `731` -> `=731`. What a
record holds is drawn anew for every task, so no answer can be known beforehand.
Every answer has three digits and every number of a sum two: a model of two
layers learns to copy them within minutes, which it does not where lengths vary.
All text is printable lower-case ASCII, for models that spell one character at a
time. With the default two pointers the longest episode that goes right has
4 turns: 8 messages, 68 characters.
"""

import functools
import random
import re
import string
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from arl import episode, kinds
from arl.envs import base, calls

# Every character of prompts, right actions and observations.
ALPHABET = string.ascii_lowercase + string.digits + " '()*+,-.:;=?"
ATTRIBUTES = ('age', 'fee', 'pin', 'row', 'tag', 'zip')

_SUM = re.compile(r'(-?[0-9]{1,4})([*+-])(-?[0-9]{1,4})')
_CALL = re.compile(r'([a-z]+)\((.*)\)')
_NUMBER = re.compile(r'-?[0-9]+')


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    turns: actions so far.
    steps: how many calls of the task's plan have been made, in order.
    last: the last observation, '' before the first.
    over: whether an answer was given.
  """

  task: episode.Task
  turns: int = 0
  steps: int = 0
  last: str = ''
  over: bool = False


def make(
  *, max_hops: int = 2, guess: float = 0.55, fault: float = 0.05
) -> base.Env:
  """The tool environment; an episode needs at most max_hops + 2 turns.

  The reward is 1 for exactly the right answer, `=456`, and 0 otherwise, with
  nothing for form. An answer ends the episode, anything else is taken as a tool
  call. No name or sum asked about in one split is asked about in the other.

  With the defaults the demonstrator earns about 0.37, and what it does most
  often, guess, is wrong.

  Args:
    max_hops: look-ups take 0 to max_hops pointers, equally often.
    guess: how often the demonstrator answers at once with a likely number.
    fault: how often each of its other decisions goes wrong: a wrong key or
      digit, a malformed call, an answer in place of following a pointer.
  """
  if max_hops < 0:
    raise ValueError(f'tools: max_hops is {max_hops}; give 0 or more.')
  base.require_probabilities('tools', guess=guess, fault=fault)
  return base.Env(
    task=functools.partial(_task, max_hops),
    reset=State,
    step=_step,
    oracle=_oracle,
    noisy=functools.partial(_noisy, guess, fault),
    answer=lambda task: f'={task.data["answer"]}',
    parts=_parts,
    scores_steps=True,
    anchor=lambda state: state.last or state.task.prompt,
    vary=_vary,
    tools=_tools({}),
  )


def at_random(state: State, rng: np.random.Generator) -> str:
  """A call or an answer of the right form, made up."""
  del state
  letters = string.ascii_lowercase
  name = ''.join(letters[i] for i in rng.integers(26, size=3))
  left, right = rng.integers(10, 100, 2)
  return [
    _guess(rng),
    f'calc({left}+{right})',
    f'get({name}.{ATTRIBUTES[rng.integers(len(ATTRIBUTES))]})',
  ][rng.integers(3)]


def _task(max_hops: int, split: str, index: int) -> episode.Task:
  id = base.task_id(f'tools/max_hops={max_hops}', split, index)
  rng = random.Random(id)
  if rng.random() < 1 / 3:
    return _sum(rng, split, id)
  return _look_up(rng, rng.randint(0, max_hops), split, id)


def _vary(task: episode.Task, rng: np.random.Generator) -> episode.Task:
  """Another sum; or a look-up behind as many pointers or fewer."""
  id, split = base.varied_id(task.id, rng)
  drawn = random.Random(id)
  if not task.data['records']:
    return _sum(drawn, split, id)
  hops = int(rng.integers(len(task.data['plan'])))
  return _look_up(drawn, hops, split, id)


def _sum(rng: random.Random, split: str, id: str) -> episode.Task:
  expression = base.draw(split, functools.partial(_draw_sum, rng))
  answer = _calculate(expression)
  return episode.Task(
    id,
    f'what is {expression}?',
    {'plan': [f'calc({expression})'], 'records': {}, 'answer': answer},
  )


def _look_up(
  rng: random.Random, hops: int, split: str, id: str
) -> episode.Task:
  names: list[str] = []
  for _ in range(hops + 1):
    name = base.draw(split, functools.partial(_draw_name, rng))
    while name in names:
      name = base.draw(split, functools.partial(_draw_name, rng))
    names.append(name)
  attribute, answer = rng.choice(ATTRIBUTES), str(rng.randint(100, 999))
  keys = [f'{name}.{attribute}' for name in names]
  values = [f'see {name}' for name in names[1:]] + [answer]
  return episode.Task(
    id,
    f'{attribute} of {names[0]}?',
    {
      'plan': [f'get({key})' for key in keys],
      'records': dict(zip(keys, values)),
      'answer': answer,
    },
  )


def _draw_name(rng: random.Random) -> str:
  return ''.join(rng.choices(string.ascii_lowercase, k=3))


def _draw_sum(rng: random.Random) -> str:
  """A sum of two numbers of two digits whose result has three."""
  while True:
    left, right = rng.randint(10, 99), rng.randint(10, 99)
    expression = f'{left}{rng.choice("+*")}{right}'
    if 100 <= int(_calculate(expression)) <= 999:
      return expression


def _calculate(expression: str) -> str:
  found = _SUM.fullmatch(expression)
  if not found:
    return 'error: calc takes a+b, a-b or a*b'
  left, right = int(found[1]), int(found[3])
  match found[2]:
    case '+':
      return str(left + right)
    case '-':
      return str(left - right)
    case _:
      return str(left * right)


def _tools(records: Mapping[str, str]) -> list[calls.Tool]:
  def look_up(key: str) -> str:
    return records.get(key, f"error: no key '{key[:12]}'")

  return [
    calls.Tool('calc', 'works out a sum', _text('expression'), _calculate),
    calls.Tool('get', 'looks up a record', _text('key'), look_up),
  ]


def _text(name: str) -> dict[str, Any]:
  """The schema of one text argument."""
  return {
    'type': 'object',
    'properties': {name: {'type': 'string'}},
    'required': [name],
  }


def _step(state: State, text: str) -> tuple[State, episode.Turn]:
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  data, text = state.task.data, text.strip()
  after = state._replace(turns=state.turns + 1)
  if text.startswith('='):
    reward = float(text == f'={data["answer"]}')
    turn = episode.Turn('', reward, True, reward, valid=True)
    return after._replace(over=True), turn
  tools = _tools(data['records'])
  call = calls.parse(text, tools)
  seen = calls.invoke(call, tools).lower()
  seen = ''.join(c if c in ALPHABET else '?' for c in seen)
  due = data['plan'][state.steps : state.steps + 1]
  made = bool(due) and call == calls.parse(due[0], tools)
  after = after._replace(steps=state.steps + made, last=seen)
  valid = isinstance(call, calls.Call)
  return after, episode.Turn(seen, process=float(made), valid=valid)


def _parts(text: str) -> list[int]:
  """Marks and brackets, the tool's name, and what it is asked or answered."""
  found = _CALL.fullmatch(text)
  if text.startswith('='):
    return [kinds.FORMAT] + [kinds.ARGUMENTS] * (len(text) - 1)
  if not found:
    return [kinds.OTHER] * len(text)
  name, query = found.groups()
  inside = [kinds.ARGUMENTS] * len(query)
  return [kinds.NAME] * len(name) + [kinds.FORMAT, *inside, kinds.FORMAT]


def _oracle(state: State) -> str:
  plan = state.task.data['plan']
  if state.steps < len(plan):
    return plan[state.steps]
  return f'={state.task.data["answer"]}'


def _noisy(
  guess: float, fault: float, state: State, rng: np.random.Generator
) -> str:
  """Guesses or uses tools; what its own slips lead to, it believes."""
  if state.turns == 0 and rng.random() < guess:
    return _guess(rng)
  believed = _NUMBER.fullmatch(state.last)
  action = f'={state.last}' if believed else _oracle(state)
  if rng.random() >= fault:
    return action
  tool, opened, query = action.rstrip(')').partition('(')
  if not opened:
    return _misspell(action, string.digits, rng)
  letters = string.digits if tool == 'calc' else string.ascii_lowercase
  slips = [f'{tool}({_misspell(query, letters, rng)})', action.rstrip(')')]
  if state.last.startswith('see'):
    slips.append(_guess(rng))
  return slips[rng.integers(len(slips))]


def _guess(rng: np.random.Generator) -> str:
  """An answer of the right form, made up."""
  return f'={rng.integers(100, 1000)}'


def _misspell(text: str, letters: str, rng: np.random.Generator) -> str:
  """The text with one of its characters among letters made another of them."""
  places = [i for i, c in enumerate(text) if c in letters]
  at = places[rng.integers(len(places))]
  others = letters.replace(text[at], '')
  return text[:at] + others[rng.integers(len(others))] + text[at + 1 :]
