"""The puzzles of reasoning-gym, one generator at a time, answered in one turn.

The package makes the problems and scores the answers, from 0 to 1; here an
answer is right or wrong, by a threshold, as the package pays a little for form
and for answers that hold the right one among others. Its scorers trust what
they read: some pass it to `eval`, some raise on it, some would work at it for
ever. So what is no plain answer of the generator's kind is wrong without their
seeing it, and no text is evaluated.

Needs `pip install 'arl[reasoning-gym]'`.
"""

import ast
import functools
import json
import random
import re
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, extras
from arl.rewards import answers

INSTALL = "pip install 'arl[reasoning-gym]'"
SYSTEM = (
  'Solve the problem. Give your final answer, and nothing else, between '
  '<answer> and </answer>.'
)
# Generators whose scores cannot be trusted, and why.
EXCLUDED = {
  **dict.fromkeys(
    (
      'boxnet',
      'graph_color',
      'propositional_logic',
      'rubiks_cube',
      'rush_hour',
    ),
    'the package gives no right answer',
  ),
  'composite': 'it is made of other generators; take one of them',
  'game_of_life_halting': 'any text is taken for no',
  'intermediate_integration': 'the problem itself, as Integral(..), is right',
  'puzzle24': 'numbers that were not given are accepted',
}
LONGEST = 20_000  # characters of an answer that is read
_SIZE = 1 << 30  # problems of a generator
_TRIES = 1000
# These evaluate what they are given; here only a literal comes through.
_EVALUATE = ('n_queens', 'string_insertion', 'spiral_matrix', 'binary_matrix')
# These make all problems of a data set at once, or check how many they are.
_WHOLE = ('acre', 'gsm_symbolic', 'list_functions', 'word_ladder')
_TERM = r'\s*[0-9A-Za-z.]+(\s*\*\*\s*[0-9]{1,2})?\s*'
_SUM = re.compile(rf'\s*[-+]?{_TERM}([-+*/]{_TERM}){{0,200}}')
_RATIO = re.compile(r'\(\s*(-?[0-9]{1,20}\s*/\s*[0-9]{1,20})\s*\)')
_WORD = re.compile(r'[A-Za-z]{2}|[0-9.]\s*\*\*')
_NUMBER = re.compile(r'[-+]?[0-9./]{1,400}([eE][-+]?[0-9]{1,3})?')
_ARITHMETIC = re.compile(r'[-+*/() 0-9.]{1,400}')


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    turns: actions so far.
    over: whether an answer was given.
  """

  task: episode.Task
  turns: int = 0
  over: bool = False


def make(
  *,
  generator: str,
  threshold: float = 1.0,
  settings: Mapping[str, Any] | None = None,
  fault: float = 0.5,
) -> base.Env:
  """The problems of a generator; those of the splits differ.

  Args:
    generator: a name of the package, not one of EXCLUDED.
    threshold: the least score of the package that is right.
    settings: the generator's own keywords, such as the range of a number.
    fault: how often the demonstrator answers another problem of the generator.
  """
  if generator in EXCLUDED:
    raise ValueError(
      f'reasoning: {generator} is left out: {EXCLUDED[generator]}.'
    )
  if not 0 < threshold <= 1:
    raise ValueError(
      f'reasoning: threshold is {threshold}; give a value in (0, 1].'
    )
  base.require_probabilities('reasoning', fault=fault)
  written = json.dumps(dict(settings or {}), sort_keys=True)
  _dataset(generator, written)
  return base.Env(
    task=functools.partial(_task, generator, written),
    reset=State,
    step=functools.partial(_step, threshold),
    oracle=lambda state: _tagged(state.task.data['answer']),
    noisy=functools.partial(_noisy, fault),
    answer=lambda task: _tagged(task.data['answer']),
    anchor=lambda state: state.task.prompt,
  )


def at_random(state: State, rng: np.random.Generator) -> str:
  """The right answer to another problem of the generator."""
  data = state.task.data
  index = int(rng.integers(_SIZE))
  return _tagged(_entry(data['generator'], data['settings'], index)['answer'])


def _tagged(text: str) -> str:
  return f'<answer>{text}</answer>'


@functools.lru_cache(maxsize=64)
def _dataset(generator: str, settings: str) -> Any:
  known = extras.load('reasoning_gym.factory', INSTALL).DATASETS
  if generator not in known:
    names = ', '.join(sorted(known.keys() - EXCLUDED.keys()))
    raise ValueError(
      f'reasoning: no generator {generator!r}; generators: {names}.'
    )
  made = _create(generator, settings, 0, 1 if generator in _WHOLE else _SIZE)
  if generator in _EVALUATE:
    # The name is looked up in the module first.
    module = extras.load(type(made).__module__, INSTALL)
    module.eval = ast.literal_eval
  return made


def _create(generator: str, settings: str, seed: int, size: int) -> Any:
  gym = extras.load('reasoning_gym', INSTALL)
  keywords = json.loads(settings)
  return gym.create_dataset(generator, seed=seed, size=size, **keywords)


_ONE = threading.Lock()


@functools.lru_cache(maxsize=4096)
def _entry(generator: str, settings: str, index: int) -> dict[str, Any]:
  """A problem as the package has it."""
  # Some generators keep notes while they work.
  with _ONE:
    if generator in _WHOLE:
      return _create(generator, settings, index, 1)[0]
    return _dataset(generator, settings)[index]


def _task(
  generator: str, settings: str, split: str, index: int
) -> episode.Task:
  family = f'reasoning/{generator}'
  if settings != '{}':
    family += f'/{settings}'
  id = base.task_id(family, split, index)
  rng = random.Random(id)
  for _ in range(_TRIES):
    place = rng.randrange(_SIZE)
    try:
      entry = _entry(generator, settings, place)
    except TypeError:  # codeio fails at some of its own problems
      continue
    if base.split_of(entry['question']) == split:
      data = {
        'generator': generator,
        'settings': settings,
        'index': place,
        'answer': entry['answer'],
      }
      return episode.Task(id, entry['question'], data, SYSTEM)
  raise ValueError(
    f'reasoning: {generator} makes too few problems for the split {split!r}; '
    'give it larger settings.'
  )


def _step(
  threshold: float, state: State, text: str
) -> tuple[State, episode.Turn]:
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  after = state._replace(turns=state.turns + 1, over=True)
  right = float(score(state.task, text) >= threshold)
  return after, episode.Turn('', right, True, right)


def score(task: episode.Task, text: str) -> float:
  """What the package gives for the answer in a text, in [0, 1].

  Raises:
    RewardFailure: its scorer fails on the right answer, too.
  """
  data = task.data
  said = answers.said(text) or ''
  answer = answers.tagged(said)
  answer = said.strip() if answer is None else answer
  if not _plain(data['generator'], answer):
    return 0.0
  dataset = _dataset(data['generator'], data['settings'])
  entry = _entry(data['generator'], data['settings'], data['index'])
  try:
    return float(dataset.score_answer(answer, entry))
  except Exception as error:
    try:
      dataset.score_answer(data['answer'], entry)
    except Exception:
      raise base.RewardFailure(
        f'{task.id}: the scorer raised {type(error).__name__}: {error}.'
      ) from error
    return 0.0


def _plain(generator: str, answer: str) -> bool:
  """Whether an answer may be shown to the generator's scorer."""
  if not 0 < len(answer) <= LONGEST:
    return False
  match generator:
    case 'countdown':
      arithmetic = _ARITHMETIC.fullmatch(answer)
      return bool(arithmetic) and '**' not in answer and '//' not in answer
    case 'simple_integration' | 'polynomial_multiplication':
      # A sum of monomials: names of one letter, small powers of them only.
      flat = _RATIO.sub(r'\1', answer)
      return bool(_SUM.fullmatch(flat)) and not _WORD.search(flat)
    case (
      'coin_flip' | 'decimal_arithmetic' | 'decimal_chain_sum'
      | 'power_function'
    ):  # fmt: skip
      return bool(_NUMBER.fullmatch(answer))
    case _:
      return True


def _noisy(fault: float, state: State, rng: np.random.Generator) -> str:
  if rng.random() < fault:
    return at_random(state, rng)
  return _tagged(state.task.data['answer'])
