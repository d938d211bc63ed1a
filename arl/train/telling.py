"""What the host tells of episodes before they are packed, as columns."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import ml_collections
import numpy as np

from arl import episode, types
from arl.models import heads
from arl.rollout import kinds, reconsidering
from arl.rollout.sglang import teacher as sglang_teacher
from arl.train import build, score, taught, weighting

Tell = Callable[[list[episode.Episode]], list[episode.Episode]]


def make(
  config: ml_collections.ConfigDict, method: types.Method, world: build.World
) -> Tell:
  """What adds the columns that a method reads and the host tells.

  The kinds of tokens, where the policy reconsiders, which teacher a task is
  given to and what teachers on servers say.

  Raises:
    ValueError: a setting that cannot work.
    ServerError: a teacher that cannot be asked.
  """
  each: list[Callable[[episode.Episode], episode.Episode]] = []
  if 'kind' in method.needs:
    of = functools.partial(
      kinds.of, decode=world.chat.decode, parts=_parts(world)
    )
    each.append(functools.partial(_with, 'kind', of))
  if 'reconsidering' in method.needs and config.rollout.reconsidering:
    of = functools.partial(
      reconsidering.of,
      decode=world.chat.decode,
      said=reconsidering.phrases(config.rollout.reconsidering),
    )
    each.append(functools.partial(_with, 'reconsidering', of))
  if weighting.COLUMN in method.needs:
    each.append(weighting.told)
  teachers = taught.named(config.model.teacher)
  asked = teachers and method.needs & score.TAUGHT
  if asked and len(teachers) > 1:
    each.append(functools.partial(taught.indexed, teachers=teachers))
  ask: Tell = list
  if asked and taught.served(config.model.teacher):
    context = config.rollout.context
    served = [_meet(url, world, context) for url in teachers.values()]
    ask = functools.partial(_ask, served, method.needs)

  def tell(episodes):
    for add in each:
      episodes = [add(one) for one in episodes]
    return ask(episodes)

  return tell


def _meet(url: str, world: build.World, context: int) -> sglang_teacher.Teacher:
  vocab = world.loaded.model.vocab
  return sglang_teacher.connect(
    url, world.tokenizer, vocab=vocab, context=context
  )


def _parts(world: build.World) -> Callable[[str], Sequence[int]]:
  assert world.env.parts is not None
  return world.env.parts


def _with(name: str, of: Callable, one: episode.Episode) -> episode.Episode:
  return one._replace(extras={**one.extras, name: of(one)})


def _ask(
  served: Sequence[sglang_teacher.Teacher],
  needs: frozenset[str],
  episodes: Sequence[episode.Episode],
) -> list[episode.Episode]:
  """The episodes with what their teachers on servers say."""
  wanted = needs & {'teacher_ids', 'teacher_top_logp', 'teacher_entropy'}
  top = heads.TOP if wanted | needs & {'top_logp'} else 0
  rows = [one.tokens.tolist() for one in episodes]
  mine = [int(one.extras.get(taught.COLUMN, [0])[0]) for one in episodes]
  all_ = 'teacher_logps' in needs
  said: list[dict[int, sglang_teacher.Said]] = [{} for _ in rows]
  for index, teacher in enumerate(served):
    to = [i for i, own in enumerate(mine) if all_ or own == index]
    for i, answer in zip(to, teacher.say([rows[i] for i in to], top)):
      said[i][index] = answer
  return [
    one._replace(extras={**one.extras, **_columns(one, told, own, len(served))})
    for one, told, own in zip(episodes, said, mine)
  ]


def _columns(
  one: episode.Episode,
  told: dict[int, sglang_teacher.Said],
  own: int,
  number: int,
) -> dict[str, Any]:
  """The columns of an episode, 0 off the mask."""
  mine = told[own]
  made = {'teacher_logp': mine.logp}
  if mine.ids.size:
    made['teacher_ids'] = mine.ids
    made['teacher_top_logp'] = mine.top_logp
    made['teacher_entropy'] = entropy(mine.top_logp)
  if len(told) == number > 1:
    made['teacher_logps'] = np.stack(
      [told[i].logp for i in range(number)], axis=-1
    )
  return {
    name: np.where(one.mask.reshape(-1, *(1,) * (x.ndim - 1)), x, 0)
    for name, x in made.items()
  }


def entropy(top_logp: np.ndarray) -> np.ndarray:
  """That of the likeliest tokens [n, K] and one more, all others, in nats, [n].

  Less than the entropy itself, by how the others differ.
  """
  chance = np.exp(top_logp)
  rest = np.maximum(1 - np.sum(chance, axis=-1), 0)
  logs = np.log(np.where(rest > 0, rest, 1))
  return -np.sum(chance * top_logp, axis=-1) - rest * logs
