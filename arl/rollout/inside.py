"""Rows that go on from a token inside a turn of another.

A branch has the state before that turn and, of the turn, the ids up to the
token, which it then has sampled anew with all that follows. Ids are those of
the engine, so nothing is encoded twice.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from arl import episode
from arl.rollout import branching, resume, strategies
from arl.rollout import engine as engine_lib


class Offshoot:
  """A leaf, where it left another, and what others left it.

  Attributes:
    leaf: the row and the rows before its turns.
    parent: what it grew out of; None for one that began at the prompt.
    start: the place of the first token that is its own.
    begun: how many tokens its present turn has already.
  """

  def __init__(
    self,
    leaf: branching.Leaf,
    parent: 'Offshoot | None' = None,
    start: int = 0,
    begun: int = 0,
  ):
    self.leaf, self.parent = leaf, parent
    self.start, self.begun = start, begun
    self.left: set[int] = set()  # places where others leave it


def branch(one: branching.Grown, parent: Offshoot, place: int) -> Offshoot:
  """A further leaf of a task, from the token at a place of another.

  Args:
    one: the leaves of the task.
    parent: a leaf that has ended.
    place: of a token that it sampled.
  """
  row = parent.leaf.row
  turn = row.turn[place]
  before = parent.leaf.before[turn]
  new = before.copy(before.path)
  new.sample = len(one.leaves)
  part = slice(len(before.tokens), place)
  new.take(
    engine_lib.Sample(
      tokens=np.array(row.tokens[part], np.int32),
      logp=np.array(row.logp[part], np.float32),
      finish=engine_lib.ABORT,
      versions=np.array(row.versions[part], np.int32),
      entropy=np.array(row.entropy[part], np.float32),
    )
  )
  leaf = branching.Leaf(new, parent.leaf.tree, [])
  leaf.before = parent.leaf.before[: turn + 1]
  one.leaves.append(leaf)
  parent.left.add(place)
  return Offshoot(leaf, parent, place, place - len(before.tokens))


def finish_turns(made: Iterable[Offshoot], engine, env, chat, plan) -> None:
  """Lets branches end the turn that they began inside of."""
  branches = list(made)
  rows = [each.leaf.row for each in branches]
  requests = [_rest(each, plan.limits) for each in branches]
  sampling = plan.sampling._replace(stop=chat.stop)
  if not requests:
    return
  for each, row, answer in zip(
    branches, rows, resume.generate(engine.generate, requests, sampling)
  ):
    row.take(answer)
    ids = row.tokens[len(row.tokens) - len(answer.tokens) - each.begun :]
    each.begun = 0
    strategies.advance(row, ids, answer.finish, env, chat, plan.limits)


def _rest(one: Offshoot, limits: strategies.Limits) -> engine_lib.Request:
  row = one.leaf.row
  asked = strategies.request(row, limits, len(row.exchanges))
  left = limits.turn_tokens - one.begun
  return asked._replace(max_tokens=min(asked.max_tokens, left))


def nodes(made: Sequence[Offshoot]) -> list[np.ndarray]:
  """The node of each token of the leaves of a task, int32 [n] each.

  A leaf's own tokens are one node up to where the first other left it, the next
  up to the second, and so on; what it has of another is that one's nodes.
  """
  numbers: dict[tuple[int, int], int] = {}
  known: dict[int, np.ndarray] = {}
  for one in made:
    n = len(one.leaf.row.tokens)
    pieces = np.searchsorted(sorted(one.left), np.arange(n), side='right')
    told = np.array(
      [
        numbers.setdefault((id(one), int(piece)), len(numbers))
        for piece in pieces
      ],
      np.int32,
    )
    if one.parent is not None:
      told[: one.start] = known[id(one.parent)][: one.start]
    known[id(one)] = told
  return [known[id(one)] for one in made]


def episodes(made: Sequence[Offshoot]) -> list[episode.Episode]:
  """The episodes of the leaves of a task, with `tree` and `node`."""
  found = []
  for one, node in zip(made, nodes(made)):
    ended = one.leaf.row.episode()
    tree = np.full(len(node), one.leaf.tree, np.int32)
    told = {**ended.extras, 'tree': tree, 'node': node}
    found.append(ended._replace(extras=told))
  return found
