"""Worlds and simulated policies for the study `retrying`.

What is simulated is who speaks: what it knows, how often it errs and how well
it judges itself are numbers that are given. Environments, strategies, credit
and counts of tokens are those of arl.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib

STOP = 0


class Words:
  """A chat in which a word of an action is a token, and so is all that is seen.

  Attributes:
    texts: by id; the first ends an action.
    chat: of it.
  """

  def __init__(self):
    self.texts: list[str] = ['']
    self._ids: dict[str, int] = {}
    self.chat = chat_lib.Chat(
      opening=lambda task: [self._id(f'?{task.prompt}')],
      reply=lambda text: [self._id(f'>{text}')],
      action=lambda text: [*map(self._id, text.split()), STOP],
      decode=self.decode,
      pieces=lambda ids: [self.texts[i] for i in ids],
      stop=(STOP,),
    )

  def _id(self, text: str) -> int:
    if text not in self._ids:
      self._ids[text] = len(self.texts)
      self.texts.append(text)
    return self._ids[text]

  def decode(self, ids: Sequence[int]) -> str:
    return ' '.join(self.texts[i] for i in ids if i != STOP)

  def read(self, ids: Sequence[int]) -> list[str]:
    """What was said and seen in a row, in turn; the prompt is first."""
    made, said = [], []
    for i in ids:
      if self.texts[i][:1] in ('?', '>'):
        made.append(self.texts[i][1:])
      elif i == STOP:
        made.append(' '.join(said))
        said = []
      else:
        said.append(self.texts[i])
    return made


class Simulated:
  """An engine whose policy is a function of what it reads and of chance.

  Attributes:
    sampled: tokens so far.
  """

  def __init__(self, words: Words, seed: int):
    self.words, self.seed, self.sampled = words, seed, 0

  def say(self, read: list[str], rng, request: engine_lib.Request) -> str:
    """What it says next.

    Args:
      read: what was said and seen, the prompt first.
      rng: of the request alone.
      request: whose path is (..., task, sample, turn).
    """
    raise NotImplementedError

  def generate(
    self,
    requests: Sequence[engine_lib.Request],
    sampling: engine_lib.Sampling,
  ) -> list[engine_lib.Sample]:
    del sampling
    return [self._answer(request) for request in requests]

  def _answer(self, request: engine_lib.Request) -> engine_lib.Sample:
    rng = np.random.default_rng([self.seed, *request.path])
    said = self.say(self.words.read(request.tokens), rng, request)
    ids = self.words.chat.action(said)[: request.max_tokens]
    self.sampled += len(ids)
    ended = ids[-1] == STOP
    return engine_lib.Sample(
      np.array(ids, np.int32),
      np.full(len(ids), -1.0, np.float32),
      engine_lib.STOP if ended else engine_lib.LENGTH,
      np.zeros(len(ids), np.int32),
    )

  def score(
    self, sequences: Sequence[Sequence[int]], temperature: float
  ) -> list[np.ndarray]:
    del temperature
    return [np.full(len(ids), -1.0, np.float32) for ids in sequences]

  def set_params(self, params: Any, version: int) -> None:
    del params, version

  def compiles(self) -> dict[str, int]:
    return {}


# --- A chain of doors, whose keys are learnt of in failures -------------------


class Seeker(Simulated):
  """Looks for keys in rooms that it has not seen; reads and writes reflections.

  It does the right thing where it can tell what that is, and tries rooms at
  random where it cannot. A reflection says from which turn to try again, the
  first into an empty room, and in which rooms it saw a key, or where there was
  none. Told so, it follows that with the probability `heed`, each time.
  """

  def __init__(self, words: Words, seed: int, heed: float = 0.9):
    super().__init__(words, seed)
    self.heed = heed

  def say(self, read, rng, request):
    if read[0].startswith('what went wrong'):
      return _reflection(read[0])
    hint, _, prompt = read[0].rpartition('\n')[0].rpartition('\n')
    del prompt
    heeded = hint if rng.random() < self.heed else ''
    return _seek([read[0].splitlines()[-1], *read[1:]], heeded, rng)


def _room(seen: str) -> str:
  return seen.partition(':')[0].split()[-1]


def _marks(seen: str) -> tuple[list[str], bool, bool]:
  """The exits, whether a key lies here, and whether one is held."""
  words = seen.partition(': ')[2].split()
  held, key = 'held' in words, 'key' in words
  return [x for x in words if x not in ('held', 'key')], key, held


def _seek(read: list[str], hint: str, rng) -> str:
  """The next action of a conversation of what is seen and done in turn."""
  seen = [text for text in read[::2] if not text.startswith('error')]
  now = seen[-1]
  exits, key, held = _marks(now)
  if key and not held:
    return 'take'
  if len(read) > 1 and read[-2].startswith('open') and now == read[-1]:
    return f'go {read[-2][-1]}'
  locked = [x[0] for x in exits if x.endswith('!')]
  if len(exits) == 1 and not locked:  # a side room
    return f'go {exits[0]}'
  if held and locked:
    return f'open {locked[0]}'
  before = {_room(text) for text in seen[:-1]}
  rooms = [x for x in exits if not x.endswith('!') and x not in before]
  inside, _, outside = hint.partition('not in')
  known = [x for x in rooms if x in inside.partition('key in')[2].split()]
  rooms = known or [x for x in rooms if x not in outside.split()] or rooms
  rooms = rooms or [x for x in exits if not x.endswith('!')]
  return f'go {rooms[rng.integers(len(rooms))]}'


def _reflection(text: str) -> str:
  """What a failure shows: where to try again, and where the keys are."""
  lines = text.splitlines()
  start = next(i for i, line in enumerate(lines) if line[:2] == '- ')
  seen = [lines[start - 1][2:], *(x[2:] for x in lines[start:] if x[0] == '>')]
  empty, keys, first = [], [], 0
  for turn, now in enumerate(seen):
    if now.startswith('error'):
      continue
    exits, key, held = _marks(now)
    side = len(exits) == 1 and not exits[0].endswith('!')
    if key:
      keys.append(_room(now))
    elif side and not held and _room(now) not in keys:
      empty.append(_room(now))
      first = first or turn
  parts = [f'{first or 1}:']
  parts += ['key', 'in', *dict.fromkeys(keys)] if keys else []
  parts += ['not', 'in', *dict.fromkeys(empty)] if empty else []
  return ' '.join(parts)


# --- Responses with tokens that decide ----------------------------------------


class Decided(NamedTuple):
  """How tokens that decide differ from others, in nats.

  Attributes:
    entropy: of a token that decides, or that is a turn of phrase; others have a
      fifth of it.
    gain: by how much likelier to the policy than to the reference each token is
      that follows one that decides.
    noise: the deviation of the log-ratio of any token.
    phrases: how many turns of phrase there are for a token that decides.
  """

  entropy: float = 1.5
  gain: float = 0.5
  noise: float = 1.0
  phrases: int = 4


class Response(NamedTuple):
  """One response.

  Attributes:
    decides: places of the tokens that do; half of them begin a turn.
    starts: the place of the first token of each turn.
    entropy: [n]. log_ratio: [n].
  """

  decides: list[int]
  starts: list[int]
  entropy: np.ndarray
  log_ratio: np.ndarray


def response(
  rng: np.random.Generator,
  how: Decided,
  *,
  turns: int = 6,
  length: int = 30,
  count: int = 2,
  width: int = 32,
) -> Response:
  """A response of turns of so many tokens, of which a few decide."""
  n = turns * length
  starts = [turn * length for turn in range(turns)]
  free = [i for i in range(int(0.8 * n)) if i not in starts]
  begun = rng.choice(starts[1:5], count // 2, replace=False)
  inside = rng.choice(free, count - len(begun), replace=False)
  decides = sorted(int(i) for i in (*begun, *inside))
  others = [i for i in free if i not in decides]
  loud = [*decides, *rng.choice(others, how.phrases * count, replace=False)]
  scale = np.full(n, how.entropy / 5)
  scale[loud] = how.entropy
  ratio = how.noise * rng.normal(size=n)
  for place in decides:
    ratio[place + 1 : place + 1 + width] += how.gain
  return Response(decides, starts, scale * rng.gamma(4.0, 0.25, n), ratio)
