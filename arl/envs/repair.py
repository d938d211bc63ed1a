"""Repositories with a fault to repair, judged by tests that nobody shows.

The issue names a function and says what it gave. `open PATH` shows a file with
numbered lines; `set PATH N TEXT` replaces a line, and blocks as in
`arl.rewards.patches` replace lines by others; `run` shows what the function of
the issue gives now; `submit` ends. Tests call every function of the repository
in a sandbox, in which no expected value is.
"""

import functools
import random
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, boxes, repair_bank
from arl.rewards import outcomes, patches

GRADES = ('tests', 'fraction', 'similarity')
RULES = (
  'Repair the fault. open PATH shows a file, set PATH N TEXT replaces line N, '
  'run shows what the function gives now, submit ends.'
)
_PATHS = ('core.py', 'tools.py', 'more.py')
_SET = re.compile(r'set (\S+) ([0-9]{1,4}) ([^\n]*)')
_OPEN = re.compile(r'open (\S+)')


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    files: (path, text) of the repository as it is now.
    turns: actions so far.
    last: the last observation, '' before the first.
    over: whether it was handed in.
  """

  task: episode.Task
  files: tuple[tuple[str, str], ...]
  turns: int = 0
  last: str = ''
  over: bool = False


class _Rules(NamedTuple):
  """What the functions of an environment share."""

  files: int
  functions: int
  tests: int
  grade: str
  seconds: float
  unsafe: bool
  system: str


def make(
  *,
  files: int = 1,
  functions: int = 2,
  tests: int = 6,
  grade: str = 'tests',
  seconds: float = 3.0,
  fault: float = 0.5,
  unsafe_without_isolation: bool = False,
  system: str = '',
) -> base.Env:
  """The repair environment; the oracle needs three turns.

  With 'tests' the reward is 1 if all hidden tests pass and 0 otherwise, with
  'fraction' the share that passes, with 'similarity' how alike the change is to
  the right one (SWE-RL's reward, arXiv:2502.18449, on the files themselves). No
  repository with its fault is in both splits.

  Args:
    files: of a repository, 1 to 3.
    functions: of a file, 1 to 4.
    tests: of each function.
    grade: one of GRADES.
    seconds: that the tests of a file may run.
    fault: how often the demonstrator repairs wrongly, or hands in at once.
    unsafe_without_isolation: run tests even if nothing can isolate them.
    system: a system message, such as RULES.

  Raises:
    ValueError: a number out of its range.
    arl.sandbox.base.Refused: nothing isolates programs on this machine.
  """
  if grade not in GRADES:
    raise ValueError(
      f'repair: no grade {grade!r}; grades: {", ".join(GRADES)}.'
    )
  if not (1 <= files <= len(_PATHS) and 1 <= functions <= 4 and tests >= 1):
    raise ValueError(
      f'repair: files {files}, functions {functions}, tests {tests}; give 1 to'
      f' {len(_PATHS)}, 1 to 4, and 1 or more.'
    )
  base.require_probabilities('repair', fault=fault)
  boxes.check(unsafe_without_isolation)
  rules = _Rules(
    files, functions, tests, grade, seconds, unsafe_without_isolation, system
  )
  return base.Env(
    task=functools.partial(_task, rules),
    reset=lambda task: State(task, tuple(task.data['files'].items())),
    step=functools.partial(_step, rules),
    oracle=_oracle,
    noisy=functools.partial(_noisy, fault),
    anchor=lambda state: repr((state.files, state.last)),
  )


def at_random(state: State, rng: np.random.Generator) -> str:
  """An action over files that are there, without a thought."""
  path, text = state.files[rng.integers(len(state.files))]
  lines = text.splitlines()
  actions = (
    f'open {path}',
    'run',
    'submit',
    f'set {path} {rng.integers(len(lines)) + 1} {rng.choice(lines)}',
  )
  return actions[rng.integers(len(actions))]


def _task(rules: _Rules, split: str, index: int) -> episode.Task:
  family = f'repair/files={rules.files}/functions={rules.functions}'
  id = base.task_id(family, split, index)
  rng = random.Random(id)
  drawn: dict[str, Any] = {}

  def propose() -> str:
    count = rules.files * rules.functions
    drawn['names'] = rng.sample(sorted(repair_bank.BY_NAME), count)
    drawn['broken'] = rng.choice(drawn['names'])
    drawn['how'] = rng.randrange(2)
    return repr(drawn)

  base.draw(split, propose)
  made = _repository(rules, drawn['names'])
  name = drawn['broken']
  one = repair_bank.BY_NAME[name]
  path = next(p for p, names in made.items() if name in names)
  right, wrong = one.breaks[drawn['how']]
  fixed = {
    p: '\n'.join(repair_bank.BY_NAME[n].source for n in names)
    for p, names in made.items()
  }
  broken = one.source.replace(right, wrong)
  files = {**fixed, path: fixed[path].replace(one.source, broken)}
  arguments, got, want = _symptom(one, broken, rng)
  shown = ', '.join(map(repr, arguments))
  prompt = f'{path}: {name}({shown}) is {got}, not {want!r}'
  tests = {n: [repair_bank.BY_NAME[n].draw(rng) for _ in range(rules.tests)]
           for n in drawn['names']}  # fmt: skip
  tests[name].append(arguments)
  data = {
    'files': files, 'fixed': fixed[path], 'path': path, 'name': name,
    'arguments': arguments, 'tests': tests, 'names': made,
  }  # fmt: skip
  return episode.Task(id, prompt, data, rules.system)


def _repository(rules: _Rules, names: list[str]) -> dict[str, list[str]]:
  each = rules.functions
  return {
    _PATHS[i]: names[i * each : (i + 1) * each] for i in range(rules.files)
  }


def _symptom(one: repair_bank.Function, broken: str, rng: random.Random):
  """Arguments with which the broken source, which is ours, goes wrong."""
  while True:
    arguments = one.draw(rng)
    (want,) = repair_bank.results(one.source, one.name, [arguments])
    try:
      (got,) = repair_bank.results(broken, one.name, [arguments])
    except Exception as error:
      return arguments, type(error).__name__, want
    if repr(got) != repr(want):
      return arguments, repr(got), want


def _step(rules: _Rules, state: State, text: str) -> tuple[State, episode.Turn]:
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  text, files = text.strip('\n'), dict(state.files)
  after = state._replace(turns=state.turns + 1)
  if text.strip() == 'submit':
    reward = _judge(rules, state.task.data, files)
    return after._replace(over=True), episode.Turn('', reward, True)
  if text.strip() == 'run':
    seen = _observed(rules, state.task.data, files)
  elif found := _OPEN.fullmatch(text.strip()):
    seen = _numbered(files.get(found[1]))
  else:
    files, seen = _edited(files, text)
  after = after._replace(files=tuple(files.items()), last=seen)
  return after, episode.Turn(seen)


def _numbered(text: str | None) -> str:
  if text is None:
    return 'error: no such file'
  return '\n'.join(f'{i} {x}' for i, x in enumerate(text.splitlines(), 1))


def _edited(files: dict[str, str], text: str) -> tuple[dict[str, str], str]:
  """Files after an edit, and what is said of it."""
  try:
    if found := _SET.fullmatch(text):
      path, number, line = found[1], int(found[2]), found[3]
      lines = files.get(path, '').splitlines()
      if not 1 <= number <= len(lines):
        return files, 'error: no such line'
      lines[number - 1] = line
      return {**files, path: '\n'.join(lines) + '\n'}, 'ok'
    edits = patches.blocks(text)
    if any(edit.path not in files for edit in edits):
      return files, 'error: no such file'
    return {**files, **patches.apply(files, edits)}, 'ok'
  except patches.FormError as error:
    return files, f'error: {error}'[:79]


def _observed(rules: _Rules, data: Mapping[str, Any], files) -> str:
  (seen,) = boxes.observe(
    files[data['path']], data['name'], [data['arguments']], rules.seconds,
    rules.unsafe,
  )  # fmt: skip
  return repr(seen[0])[:60] if isinstance(seen, list) else f'error: {seen[:40]}'


def _judge(rules: _Rules, data: Mapping[str, Any], files) -> float:
  if rules.grade == 'similarity':
    before, right = data['files'], {data['path']: data['fixed']}
    return patches.alike(before, files, right)
  results: list[str] = []
  for path, names in data['names'].items():
    for name in names:
      asked = data['tests'][name]
      seen = boxes.observe(
        files[path], name, asked, rules.seconds, rules.unsafe
      )
      results += map(boxes.graded, seen, repair_bank.right(name, asked))
  grade = outcomes.all_passed if rules.grade == 'tests' else outcomes.fraction
  return boxes.earned(grade(results))


def _difference(state: State) -> tuple[str, int, str] | None:
  """The first line that is not as it should be."""
  path, right = state.task.data['path'], state.task.data['fixed'].splitlines()
  there = dict(state.files)[path].splitlines()
  for i, (a, b) in enumerate(zip(there, right), 1):
    if a != b:
      return path, i, b
  return None


def _oracle(state: State) -> str:
  found = _difference(state)
  if found is None:
    return 'submit'
  path, number, line = found
  return f'set {path} {number} {line}' if state.last else f'open {path}'


def _noisy(fault: float, state: State, rng: np.random.Generator) -> str:
  """Now and then another line than the right one, or too early an end."""
  action = _oracle(state)
  if not action.startswith('set') or rng.random() >= fault:
    return action
  if rng.random() < 0.5:
    return 'submit'
  path, number, line = _difference(state) or ('', 1, '')
  words = line.split(' ')
  at = int(rng.integers(len(words)))
  words[at] = words[int(rng.integers(len(words)))]
  return f'set {path} {number} {" ".join(words)}'
