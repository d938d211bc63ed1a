"""Rollouts that branch, all of which are trained on.

Sequences of a task grow out of common beginnings: each is a whole row from its
prompt on, and what it shares with others is in the batch as often as it has
copies. `tree` numbers the beginnings of a task, and `node` the turns that were
sampled: a turn that several sequences of a tree have is one node. States are
the environment's immutable values, so nothing is replayed. The rows of all
tasks advance together.

A task has `prompts.samples` sequences, its leaves.
"""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.rollout import costs, strategies

GIVES = frozenset({'tree', 'node', 'copies'})


class Leaf:
  """A row, the tree it belongs to and the nodes of its turns."""

  def __init__(self, row: strategies.Live, tree: int, nodes: list[int]):
    self.row, self.tree, self.nodes = row, tree, nodes
    self.before: list[strategies.Live] = []  # the row before each of its turns


class Grown:
  """The leaves of a task."""

  def __init__(self, place: int):
    self.place, self.number = place, 0
    self.leaves: list[Leaf] = []

  def node(self) -> int:
    self.number += 1
    return self.number - 1


def tree(roots: int) -> strategies.Strategy:
  """The strategy of Tree-GRPO (arXiv:2509.21240): chains, then branches.

  First `roots` chains are played, each the trunk of a tree. Then each tree gets
  its share of the other samples: from states in it that are drawn at random,
  the first included, the policy plays on to the end. Ours: as many leaves as
  samples, where the paper draws some of more.

  Args:
    roots: trees of a task; prompts.samples is a multiple of it.
  """

  def strategy(engine, env, chat, tasks, plan):
    """Multi-turn episodes with `tree` and `node`; as `strategies.multi_turn`.

    Raises:
      ValueError: samples that are no multiple of the roots.
    """
    check_share('branching.tree', roots, plan)
    made = [
      started(env, chat, task, place, roots, plan)
      for place, task in enumerate(tasks, plan.first)
    ]
    play(made, engine, env, chat, plan)
    for one in made:
      rng = np.random.default_rng([*plan.path, one.place])
      for leaf in one.leaves[:roots]:
        for _ in range(plan.samples // roots - 1):
          if leaf.before:
            branch(one, leaf, int(rng.integers(len(leaf.before))))
    play(made, engine, env, chat, plan)
    return [e for one in made for e in episodes(one)]

  strategy.gives = GIVES  # type: ignore[attr-defined]
  strategy.tells = costs.branched  # type: ignore[attr-defined]
  return strategy


def answers(count: int) -> strategies.Strategy:
  """The strategy of GRPO-MA (arXiv:2509.24494): answers to each first turn.

  The first turn is played once for each tree, and from what the environment
  answers to it `count` sequences go on. Where it ends the episode they are one.

  Args:
    count: sequences of a first turn; prompts.samples is a multiple of it.
  """

  def strategy(engine, env, chat, tasks, plan):
    """Multi-turn episodes with `tree` and `node`; as `strategies.multi_turn`.

    Raises:
      ValueError: samples that are no multiple of the answers.
    """
    check_share('branching.answers', count, plan)
    made = [
      started(env, chat, task, place, plan.samples // count, plan)
      for place, task in enumerate(tasks, plan.first)
    ]
    take_turn(made, engine, env, chat, plan)
    for one in made:
      for leaf in one.leaves[:]:
        if not leaf.row.status:
          for _ in range(count - 1):
            fork(one, leaf, leaf.row, leaf.nodes)
    play(made, engine, env, chat, plan)
    return [e for one in made for e in episodes(one)]

  strategy.gives = GIVES  # type: ignore[attr-defined]
  strategy.tells = costs.branched  # type: ignore[attr-defined]
  return strategy


def check_share(name: str, count: int, plan: strategies.Plan) -> None:
  """Refuses samples that are no multiple of a count."""
  if count < 1 or plan.samples % count:
    raise ValueError(
      f'{name}: {plan.samples} samples cannot be shared out by'
      f' {count}; set prompts.samples to a multiple of it.'
    )


def started(env, chat, task, place, count: int, plan) -> Grown:
  made = Grown(place)
  grow(made, count, env, chat, task, plan)
  return made


def grow(made: Grown, count: int, env, chat, task, plan) -> None:
  """Further trees, at their roots, until there are so many leaves."""
  path = *plan.path, made.place
  first = max((leaf.tree for leaf in made.leaves), default=-1) + 1
  for number, sample in enumerate(range(len(made.leaves), count), first):
    row = strategies.start(env, chat, task, plan.limits, sample, path)
    made.leaves.append(Leaf(row, number, []))


def branch(made: Grown, leaf: Leaf, turn: int) -> None:
  """A leaf that goes on from where a turn of another begins."""
  fork(made, leaf, leaf.before[turn], leaf.nodes[:turn])


def fork(made: Grown, leaf: Leaf, row, nodes: list[int]) -> None:
  new = row.copy(row.path)
  new.sample = len(made.leaves)
  made.leaves.append(Leaf(new, leaf.tree, list(nodes)))
  made.leaves[-1].before = leaf.before[: len(nodes)]


def take_turn(
  made: Sequence[Grown], engine, env, chat, plan
) -> list[tuple[Grown, Leaf]]:
  """Lets all rows take a turn; those that had one to take."""
  going = [
    (one, leaf) for one in made for leaf in one.leaves if not leaf.row.status
  ]
  for one, leaf in going:
    leaf.before.append(leaf.row.copy(leaf.row.path))
    leaf.nodes.append(one.node())
  if going:
    rows = [leaf.row for _, leaf in going]
    strategies.take_turn(rows, engine, env, chat, plan)
  return going


def play(made: Sequence[Grown], engine, env, chat, plan) -> None:
  while take_turn(made, engine, env, chat, plan):
    pass


def episodes(one: Grown) -> list[episode.Episode]:
  return [_told(leaf) for leaf in one.leaves]


def _told(leaf: Leaf) -> episode.Episode:
  """The episode with the numbers of its tree and of its nodes."""
  made = leaf.row.episode()
  nodes = np.array([*leaf.nodes, -1], np.int32)  # -1 where nothing was sampled
  told = {
    'tree': np.full(len(made.tokens), leaf.tree, np.int32),
    'node': nodes[np.minimum(made.turn, len(leaf.nodes))],
  }
  return made._replace(extras={**made.extras, **told})


two_trees, four_trees = tree(2), tree(4)
two_answers, four_answers = answers(2), answers(4)
