"""A shell in a sandbox: small tasks over files, judged by what is there after.

`what is in abc?` is solved by `cat abc` -> `see xyz` -> `cat xyz` -> `347` ->
`answer 347`; `put 347 in abc`, `rename abc to xyz`, `delete abc` and `copy abc
to xyz` by a command and `done`. Every other action is a command of bash, and
its output is the observation. The verifier reads the files that the shell left
behind, outside of the sandbox: it runs nothing there, and what a command prints
proves nothing.
"""

import functools
import random
import re
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, boxes
from arl.sandbox import session

KINDS = ('read', 'count', 'put', 'rename', 'delete', 'copy')
RULES = (
  'Work in a bash shell: each of your messages is one command. End with `done`,'
  ' or with `answer` and the answer where something was asked.'
)
_ANSWER = re.compile(r'answer (.*)', re.DOTALL)


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    shell: files, directory and variables.
    turns: actions so far.
    steps: how many commands of the task's plan have been made, in order.
    last: the last observation, '' before the first.
    over: whether the end was said.
  """

  task: episode.Task
  shell: session.State
  turns: int = 0
  steps: int = 0
  last: str = ''
  over: bool = False


class _Rules(NamedTuple):
  """What the functions of an environment share."""

  kinds: tuple[str, ...]
  hops: int
  shown: int
  seconds: float
  unsafe: bool
  system: str


def make(
  *,
  kinds: Sequence[str] = KINDS,
  hops: int = 1,
  shown: int = 60,
  seconds: float = 5.0,
  guess: float = 0.4,
  fault: float = 0.1,
  unsafe_without_isolation: bool = False,
  system: str = '',
) -> base.Env:
  """The terminal environment; the oracle needs hops + 2 turns.

  The reward is 1 for the right answer, or for exactly the files that the task
  asks for, and 0 otherwise. A step's score is 1 for the next command of the
  plan. No file of one split has a name of the other.

  Args:
    kinds: of tasks, some of KINDS.
    hops: pointers from file to file in a `read` task, at most.
    shown: characters of output that are shown, the last ones.
    seconds: that a command may run.
    guess: how often the demonstrator says the end at once.
    fault: how often what it does next is wrong.
    unsafe_without_isolation: run commands even if nothing can isolate them.
    system: a system message, such as RULES.

  Raises:
    ValueError: an unknown kind, or a number out of its range.
    arl.sandbox.base.Refused: nothing isolates programs on this machine.
  """
  if not kinds or set(kinds) - set(KINDS):
    raise ValueError(f'terminal: kinds {kinds}; give some of {KINDS}.')
  if hops < 0 or shown < 8:
    raise ValueError(
      f'terminal: hops {hops}, shown {shown}; give 0 or more, and 8 or more.'
    )
  base.require_probabilities('terminal', guess=guess, fault=fault)
  boxes.check(unsafe_without_isolation)
  rules = _Rules(
    tuple(kinds), hops, shown, seconds, unsafe_without_isolation, system
  )
  return base.Env(
    task=functools.partial(_task, rules),
    reset=_reset,
    step=functools.partial(_step, rules),
    oracle=_oracle,
    noisy=functools.partial(_noisy, guess, fault),
    scores_steps=True,
    anchor=lambda state: repr((state.shell, state.last)),
  )


def at_random(state: State, rng: np.random.Generator) -> str:
  """A command over names that are there, without a thought."""
  names = [*state.task.data['files'], 'out']
  name = lambda: names[rng.integers(len(names))]
  actions = (
    f'cat {name()}', f'mv {name()} {name()}', f'rm {name()}', 'ls', 'done',
    f'answer {rng.integers(100, 1000)}',
  )  # fmt: skip
  return actions[rng.integers(len(actions))]


def _task(rules: _Rules, split: str, index: int) -> episode.Task:
  family = f'terminal/kinds={"-".join(rules.kinds)}/hops={rules.hops}'
  id = base.task_id(family, split, index)
  rng = random.Random(id)
  names: list[str] = []
  while len(names) < rules.hops + 2:
    name = base.draw(split, lambda: ''.join(rng.choices(_LETTERS, k=3)))
    if name not in names:
      names.append(name)
  made = _PROBLEMS[rng.choice(rules.kinds)](names, rules.hops, rng)
  return episode.Task(id, made.pop('prompt'), made, rules.system)


_LETTERS = string.ascii_lowercase


def _number(rng) -> str:
  return str(rng.randint(100, 999))


def _read(names, hops, rng) -> dict[str, Any]:
  chain = names[: rng.randint(0, hops) + 1]
  answer = _number(rng)
  held = [f'see {name}\n' for name in chain[1:]] + [f'{answer}\n']
  return {
    'prompt': f'what is in {chain[0]}?',
    'files': dict(zip(chain, held)),
    'plan': [f'cat {name}' for name in chain],
    'answer': answer,
  }


def _count(names, hops, rng) -> dict[str, Any]:
  lines = [_number(rng) for _ in range(rng.randint(2, 9))]
  return {
    'prompt': f'how many lines has {names[0]}?',
    'files': {names[0]: ''.join(f'{line}\n' for line in lines)},
    'plan': [f'wc -l {names[0]}'],
    'answer': str(len(lines)),
  }


def _put(names, hops, rng) -> dict[str, Any]:
  number = _number(rng)
  return {
    'prompt': f'put {number} in {names[0]}',
    'files': {},
    'plan': [f'echo {number} > {names[0]}'],
    'wanted': {names[0]: f'{number}\n'},
  }


def _move(verb, command, kept, names, hops, rng) -> dict[str, Any]:
  first, second = names[:2]
  held = f'{_number(rng)}\n'
  other = {} if verb == 'delete' else {second: held}
  to = f' to {second}' if other else ''
  return {
    'prompt': f'{verb} {first}{to}',
    'files': {first: held},
    'plan': [f'{command} {first}{to.removeprefix(" to")}'],
    'wanted': {**({first: held} if kept else {}), **other},
  }


_PROBLEMS: dict[str, Any] = {
  'read': _read,
  'count': _count,
  'put': _put,
  'rename': functools.partial(_move, 'rename', 'mv', False),
  'delete': functools.partial(_move, 'delete', 'rm', False),
  'copy': functools.partial(_move, 'copy', 'cp', True),
}


def _reset(task: episode.Task) -> State:
  files = {name: text.encode() for name, text in task.data['files'].items()}
  return State(task, session.begin(files))


def _step(rules: _Rules, state: State, text: str) -> tuple[State, episode.Turn]:
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  data, text = state.task.data, text.strip()
  after = state._replace(turns=state.turns + 1)
  said = _ANSWER.fullmatch(text)
  if said or text == 'done':
    right = _right(data, state.shell, said[1].strip() if said else None)
    return after._replace(over=True), episode.Turn(
      '', float(right), True, float(right)
    )
  if not text or '\0' in text:
    after = after._replace(last='error: say a command')
    return after, episode.Turn(after.last, process=0.0)
  shell, outcome = boxes.run(state.shell, text, rules.seconds, rules.unsafe)
  due = data['plan'][state.steps : state.steps + 1]
  next_ = float(due == [text])
  after = after._replace(
    shell=shell,
    steps=state.steps + int(next_),
    last=_shown(outcome, rules.shown),
  )
  return after, episode.Turn(after.last, process=next_)


def _shown(outcome, most: int) -> str:
  """The end of what a command wrote, in printable ASCII, and how it failed."""
  text = outcome.stdout.decode(errors='replace').strip()
  text = ''.join(c if c == '\n' or ' ' <= c <= '~' else '?' for c in text)
  if outcome.limit:
    return f'error: {outcome.limit}'
  if outcome.code:
    return f'error: {text[-most:] or outcome.code}'
  return text[-most:] or 'ok'


def _right(data, shell: session.State, answer: str | None) -> bool:
  if 'answer' in data:
    return answer == data['answer']
  there = {
    entry.name: (entry.kind, entry.data.decode(errors='replace'))
    for entry in shell.work
  }
  wanted = {name: ('file', text) for name, text in data['wanted'].items()}
  return answer is None and there == wanted


def _oracle(state: State) -> str:
  data = state.task.data
  if state.steps < len(data['plan']):
    return data['plan'][state.steps]
  return f'answer {data["answer"]}' if 'answer' in data else 'done'


def _noisy(
  guess: float, fault: float, state: State, rng: np.random.Generator
) -> str:
  """Ends at once, or works, and slips on the way."""
  asked = 'answer' in state.task.data
  number = rng.integers(2, 10) if 'wc' in _oracle(state) else None
  guessed = rng.integers(100, 1000) if number is None else number
  if state.turns == 0 and rng.random() < guess:
    return f'answer {guessed}' if asked else 'done'
  if rng.random() >= fault:
    return _oracle(state)
  slips = [
    at_random(state, rng),
    'ls',
    f'answer {guessed}' if asked else 'done',
  ]
  return slips[rng.integers(len(slips))]
