"""A search over actions: episodes, and what they show each action to be worth.

Agent Q (arXiv:2408.07199, section 4). In a state the policy proposes a few
actions and a critic ranks them. Each simulation goes down the tree, always by
the highest upper bound, tries one action that was not tried before, and lets
the policy play on from there to the end; what the episode earned is averaged
into all actions on the way. States are the environment's immutable values, so
nothing is replayed, and the trees of all tasks take their steps together.

An episode is a simulation: `prompts.samples` are the simulations of a task. The
pairs that it learns from are made of them by `pairs.siblings`.
"""

import functools
from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import ranking, resume, strategies, trees, vine


class _Node:
  """A state, and what is known of the actions proposed there."""

  def __init__(self, row: strategies.Live):
    self.row = row
    self.actions: list[engine_lib.Sample] = []  # none before it is expanded
    self.ranked: np.ndarray | None = None
    self.value = self.visits = np.zeros(0)
    self.after: dict[int, _Node] = {}

  def worth(self, alpha: float) -> np.ndarray:
    return trees.blend(self.value, self.ranked, alpha)

  def expand(self, actions: list[engine_lib.Sample]) -> None:
    self.actions = actions
    self.value, self.visits = np.zeros((2, len(actions)))


_Path = list[tuple[_Node, int]]  # states, and which action was taken in each


class _Tree:
  """The search of one task."""

  def __init__(self, row: strategies.Live):
    self.root, self.size = _Node(row), 1
    self.simulations: list[tuple[strategies.Live, _Path]] = []

  def failed(self) -> bool:
    rows = [row for row, _ in self.simulations[-1:]]
    return any(row.status not in episode.GRADED for row in rows)


def guided(
  count: int, rank: ranking.Rank, *, alpha: float = 0.5, c: float = 1.0
) -> strategies.Strategy:
  """The strategy that searches; by its names at the end of this file.

  An episode has two columns more. `action_value` is what its actions are worth
  once the search has ended: alpha times the mean outcome and 1 - alpha times
  1 / rank, the outcome being an episode's total reward; nan off the tree, where
  the policy played on. `ranked` is true where the critic told the action from
  others; where it could not, the mean outcome alone counts.

  Of proposals that say the same the first is kept. A simulation in which the
  environment fails is the last of its task, and counts for no action. Seconds
  are counted from where the search of a task began.

  Args:
    count: actions that are proposed in a state, the paper's K.
    rank: orders them, see `ranking`.
    alpha: how much the outcomes count, in [0, 1]; the rest is the ranking.
    c: how much is added for being tried seldom, 0 or more.

  Raises:
    ValueError: a number that is out of its range.
  """
  if count < 2 or not 0 <= alpha <= 1 or not c >= 0:
    raise ValueError(
      f'search.guided: count {count}, alpha {alpha}, c {c}; propose 2 actions'
      ' or more, with alpha from 0 to 1 and c of 0 or more.'
    )

  def strategy(engine, env, chat, tasks, plan):
    """Simulations with the columns; as `strategies.multi_turn`."""
    made = [
      _Tree(strategies.start(env, chat, task, plan.limits, 0, path))
      for place, task in enumerate(tasks, plan.first)
      for path in [(*plan.path, place, 0)]
    ]
    choose = functools.partial(_choose, alpha=alpha, c=c)
    for sample in range(plan.samples):
      going = [tree for tree in made if not tree.failed()]
      ends = [_walk(tree.root, choose)[1] for tree in going]
      new = [node for node in ends if node and not node.row.status]
      _expand(new, count, rank, engine, chat, plan)
      _simulate(going, sample, choose, engine, env, chat, plan)
    return [one for tree in made for one in _told(tree, alpha)]

  strategy.gives = frozenset({'ranked'})  # type: ignore[attr-defined]
  return strategy


def _choose(node: _Node, alpha: float, c: float) -> int:
  """The action to go on by; of several as good the first."""
  return int(np.argmax(trees.upper(node.worth(alpha), node.visits, c)))


def _walk(root: _Node, choose) -> tuple[_Path, _Node | None]:
  """The way down the tree, and the state there; None after an action that was
  not tried."""
  path: _Path = []
  node: _Node | None = root
  while node and node.actions:
    index = choose(node)
    path.append((node, index))
    node = node.after.get(index)
  return path, node


def _expand(nodes: Sequence[_Node], count, rank, engine, chat, plan) -> None:
  """Has actions proposed in states, and ranked."""

  def path(node, number):  # those below are of simulations
    return *node.row.path, plan.samples + number, len(node.row.exchanges)

  requests = [
    strategies.request(node.row, plan.limits, 0)._replace(path=path(node, i))
    for node in nodes
    for i in range(count)
  ]
  if not requests:
    return
  sampling = plan.sampling._replace(stop=chat.stop)
  answers = resume.generate(engine.generate, requests, sampling)
  for place, node in enumerate(nodes):
    mine = answers[place * count : (place + 1) * count]
    node.expand(_distinct(mine, chat))
  several = [node for node in nodes if len(node.actions) > 1]
  questions = [
    ranking.Question(node.row, node.actions, path(node, count))
    for node in several
  ]
  orders = rank(engine, chat, questions, plan)
  for node, order in zip(several, orders, strict=True):
    if order is not None:
      node.ranked = trees.reciprocal(order)


def _distinct(
  actions: Sequence[engine_lib.Sample], chat: chat_lib.Chat
) -> list[engine_lib.Sample]:
  """The first of those that say the same; what a limit cut is another."""
  first: dict[tuple[str, str], engine_lib.Sample] = {}
  for each in actions:
    first.setdefault((chat.decode(each.tokens.tolist()), each.finish), each)
  return list(first.values())


def _simulate(
  made: Sequence[_Tree], sample, choose, engine, env, chat, plan
) -> None:
  """One simulation of each tree, whose ways all end off the tree."""
  paths, rows = [], []
  for tree in made:
    path, node = _walk(tree.root, choose)
    if not node:
      node = _try(tree, path[-1], env, chat, plan)
    row = node.row.copy(node.row.path)
    row.sample = sample
    paths.append(path)
    rows.append(row)
  vine.play(rows, engine, env, chat, plan)
  for tree, path, row in zip(made, paths, rows):
    tree.simulations.append((row, path))
    if row.status in episode.GRADED:
      _learn(path, sum(row.rewards))


def _try(tree: _Tree, taken: tuple[_Node, int], env, chat, plan) -> _Node:
  """The state after an action that was not tried before."""
  node, index = taken
  action = node.actions[index]
  row = node.row.copy((*node.row.path[:-1], tree.size))
  row.take(action)
  strategies.advance(row, action.tokens, action.finish, env, chat, plan.limits)
  tree.size += 1
  node.after[index] = _Node(row)
  return node.after[index]


def _learn(path: _Path, outcome: float) -> None:
  """Averages an outcome into the actions that led to it."""
  for node, i in path:
    node.value[i] = trees.backup(node.value[i], node.visits[i], outcome)
    node.visits[i] += 1


def _told(tree: _Tree, alpha: float) -> list[episode.Episode]:
  """The simulations as episodes with their columns."""
  made = []
  for row, path in tree.simulations:
    one = row.episode()
    value = np.full(len(one.tokens), np.nan, np.float32)
    ranked = np.zeros(len(one.tokens), bool)
    for turn, (node, index) in enumerate(path):
      here = one.mask & (one.turn == turn)
      value[here] = node.worth(alpha)[index]
      ranked[here] = node.ranked is not None
    columns = {'action_value': value, 'ranked': ranked}
    made.append(one._replace(extras={**one.extras, **columns}))
  return made


by_critic = guided(4, ranking.by_critic)
# What the policy would rather do is no judgement: by itself, 0.2 * (1 - 1 / 4)
# at most, it tells no two actions apart by the margin of `pairs.siblings`.
by_likelihood = guided(4, ranking.by_likelihood, alpha=0.8)
