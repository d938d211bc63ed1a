"""Questions over several hops, answered by searching a small made-up world.

`kgv boss home?` asks for the home of the boss of kgv. `search(kgv boss)` shows
the passages that fit best by BM25, `kgv boss zoo`; `answer(qte)` ends the
episode. In the style `articles` the same is English with longer passages. The
worlds and their passages are those of `arl.envs.search_corpus`.
"""

import functools
import random
import re
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, bm25, calls, search_corpus
from arl.rewards import search as search_rewards

GRADES = {'exact_match': search_rewards.exact_match, 'f1': search_rewards.f1}
RULES = (
  'Answer the question. search(words) shows what is known; answer(text) gives '
  'the answer, as short as it can be.'
)
_ACTION = re.compile(r'(search|answer)\((.*)\)', re.DOTALL)


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    turns: actions so far.
    steps: how many facts of the chain have been seen, in order.
    last: the last observation, '' before the first.
    over: whether an answer was given.
  """

  task: episode.Task
  turns: int = 0
  steps: int = 0
  last: str = ''
  over: bool = False


class _World(NamedTuple):
  """What the functions of an environment share."""

  family: str
  corpus: search_corpus.Corpus
  hops: tuple[int, int]
  passages: int
  grade: str
  system: str


def make(
  *,
  style: str = 'letters',
  entities: int = 1500,
  seed: int = 0,
  min_hops: int = 1,
  max_hops: int = 2,
  passages: int = 1,
  grade: str = 'exact_match',
  guess: float = 0.4,
  fault: float = 0.15,
  system: str = '',
) -> base.Env:
  """The search environment; the oracle needs max_hops + 1 turns.

  An answer earns its grade after SQuAD's normalization. A step's score is 1 for
  seeing the next fact of the chain, and its grade for an answer. No thing that
  is asked about in one split is asked about in the other.

  Args:
    style: one of `search_corpus.STYLES`.
    entities: things in the world, 100 or more; each has four facts.
    seed: of the world.
    min_hops: facts that a question follows at least, from 1.
    max_hops: facts that a question follows at most, up to 3.
    passages: that a search shows at most.
    grade: 'exact_match' or 'f1'.
    guess: how often the demonstrator answers at once with any name.
    fault: how often what it does next is wrong: a fact that was not asked for,
      the wrong name, or an answer too early.
    system: a system message, such as RULES.
  """
  if style not in search_corpus.STYLES:
    raise ValueError(
      f'search: no style {style!r}; styles: {", ".join(search_corpus.STYLES)}.'
    )
  if grade not in GRADES:
    raise ValueError(
      f'search: no grade {grade!r}; grades: {", ".join(GRADES)}.'
    )
  if not 1 <= min_hops <= max_hops <= 3:
    raise ValueError(
      f'search: {min_hops} to {max_hops} hops; give 1 <= min <= max <= 3.'
    )
  if not 100 <= entities <= 10_000:
    raise ValueError(f'search: entities is {entities}; give 100 to 10000.')
  if passages < 1:
    raise ValueError(f'search: passages is {passages}; give 1 or more.')
  base.require_probabilities('search', guess=guess, fault=fault)
  world = _World(
    f'search/{style}/entities={entities}/seed={seed}/hops={min_hops}-{max_hops}',
    search_corpus.make(style, entities, seed),
    (min_hops, max_hops), passages, grade, system,
  )  # fmt: skip
  return base.Env(
    task=functools.partial(_task, world),
    reset=State,
    step=functools.partial(_step, world),
    oracle=functools.partial(_oracle, world),
    noisy=functools.partial(_noisy, guess, fault, world),
    answer=lambda task: f'answer({task.data["answer"]})',
    scores_steps=True,
    anchor=lambda state: state.last or state.task.prompt,
    tools=_TOOLS,
  )


def at_random(state: State, rng: np.random.Generator) -> str:
  """A search for or an answer of words that were seen, without a thought."""
  seen = bm25.words(f'{state.task.prompt} {state.last}')
  if rng.random() < 0.5:
    return f'answer({seen[rng.integers(len(seen))]})'
  first, second = rng.integers(len(seen), size=2)
  return f'search({seen[first]} {seen[second]})'


def _tool(name: str, description: str, argument: str) -> calls.Tool:
  schema: dict[str, Any] = {
    'type': 'object',
    'properties': {argument: {'type': 'string'}},
    'required': [argument],
  }
  return calls.Tool(name, description, schema, lambda **_: '')


_TOOLS = (
  _tool('search', 'shows the passages that fit best', 'words'),
  _tool('answer', 'gives the answer and ends the task', 'text'),
)


def _task(world: _World, split: str, index: int) -> episode.Task:
  id = base.task_id(world.family, split, index)
  rng = random.Random(id)
  names = tuple(world.corpus.relations)
  start = base.draw(split, lambda: rng.choice(names))
  chain, answer = _chain(world.corpus, start, rng.randint(*world.hops), rng)
  question = world.corpus.ask(start, tuple(relation for _, relation in chain))
  data = {'chain': [list(link) for link in chain], 'answer': answer}
  return episode.Task(id, question, data, world.system)


def _chain(
  corpus: search_corpus.Corpus, start: str, hops: int, rng: random.Random
) -> tuple[list[tuple[str, str]], str]:
  """(name, relation) of each hop, and where the last one leads.

  No thing occurs twice in a chain, the answer included.
  """
  while True:
    chain: list[tuple[str, str]] = []
    seen = [start]
    while len(chain) < hops and seen[-1] in corpus.relations:
      relation = rng.choice(corpus.relations[seen[-1]])
      chain.append((seen[-1], relation))
      seen.append(corpus.facts[chain[-1]].value)
    if len(chain) == hops and len(set(seen)) == len(seen):
      return chain, seen[-1]


def _step(world: _World, state: State, text: str) -> tuple[State, episode.Turn]:
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  after = state._replace(turns=state.turns + 1)
  action = _ACTION.fullmatch(text.strip())
  if not action:
    after = after._replace(last='error: say search(words) or answer(text)')
    return after, episode.Turn(after.last, process=0.0)
  name, said = action.groups()
  if name == 'answer':
    grade = GRADES[world.grade](said, [state.task.data['answer']])
    return after._replace(over=True), episode.Turn('', grade, True, grade)
  found = bm25.top(world.corpus.lookup, said, world.passages)
  shown = [world.corpus.passages[place] for place in found]
  due = state.task.data['chain'][state.steps : state.steps + 1]
  seen = bool(due) and world.corpus.facts[tuple(due[0])].passage in found
  after = after._replace(
    steps=state.steps + seen, last='\n'.join(shown) or 'nothing found'
  )
  return after, episode.Turn(after.last, process=float(seen))


def _oracle(world: _World, state: State) -> str:
  data = state.task.data
  if state.steps == len(data['chain']):
    return f'answer({data["answer"]})'
  return f'search({world.corpus.query(*data["chain"][state.steps])})'


def _noisy(
  guess: float,
  fault: float,
  world: _World,
  state: State,
  rng: np.random.Generator,
) -> str:
  """Guesses or searches; its slips cost a turn, or the episode."""
  names, data = tuple(world.corpus.relations), state.task.data
  any_name = names[rng.integers(len(names))]
  if state.turns == 0 and rng.random() < guess:
    return f'answer({any_name})'
  if rng.random() >= fault:
    return _oracle(world, state)
  name, _ = data['chain'][min(state.steps, len(data['chain']) - 1)]
  subject = (name, any_name)[rng.integers(2)]
  relations = world.corpus.relations[subject]
  relation = relations[rng.integers(len(relations))]
  slips = f'search({world.corpus.query(subject, relation)})', f'answer({name})'
  return slips[rng.integers(2)]
