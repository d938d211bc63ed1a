"""Rollouts that branch, all of which are trained on.

Sequences of a task grow out of common beginnings: each is a whole row from its
prompt on, and what it shares with others is in the batch as often as it has
copies. `tree` numbers the beginnings of a task, and `node` the turns that were
sampled: a turn that several sequences of a tree have is one node. States are
the environment's immutable values, so nothing is replayed. The rows of all
tasks advance together.

A task has `prompts.samples` sequences, its leaves.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from arl import episode
from arl.envs import base
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import resume, strategies

Strategy = Callable[..., list[episode.Episode]]
_GIVES = frozenset({'tree', 'node', 'copies'})


class _Leaf:
  """A row, the tree it belongs to and the nodes of its turns."""

  def __init__(self, row: strategies.Live, tree: int, nodes: list[int]):
    self.row, self.tree, self.nodes = row, tree, nodes
    self.before: list[strategies.Live] = []  # the row before each of its turns


class _Task:
  """The leaves of a task."""

  def __init__(self, place: int):
    self.place, self.number = place, 0
    self.leaves: list[_Leaf] = []

  def node(self) -> int:
    self.number += 1
    return self.number - 1


def tree(roots: int) -> Strategy:
  """The strategy of Tree-GRPO (arXiv:2509.21240): chains, then branches.

  First `roots` chains are played, each the trunk of a tree. Then each tree gets
  its share of the other samples: from states in it that are drawn at random,
  the first included, the policy plays on to the end. Ours: as many leaves as
  samples, where the paper draws some of more.

  Args:
    roots: trees of a task; prompts.samples is a multiple of it.
  """

  def strategy(
    engine: engine_lib.Engine,
    env: base.Env,
    chat: chat_lib.Chat,
    tasks: Sequence[episode.Task],
    plan: strategies.Plan,
  ) -> list[episode.Episode]:
    """Multi-turn episodes with `tree` and `node`; as `strategies.multi_turn`.

    Raises:
      ValueError: samples that are no multiple of the roots.
    """
    _check_share('tree', roots, plan)
    made = [
      _started(env, chat, task, place, roots, plan)
      for place, task in enumerate(tasks)
    ]
    _play(made, engine, env, chat, plan)
    for one in made:
      rng = np.random.default_rng([*plan.path, one.place])
      for leaf in one.leaves[:roots]:
        for _ in range(plan.samples // roots - 1):
          if leaf.before:
            _branch(one, leaf, int(rng.integers(len(leaf.before))))
    _play(made, engine, env, chat, plan)
    return [e for one in made for e in _episodes(one)]

  strategy.gives = _GIVES  # type: ignore[attr-defined]
  return strategy


def answers(count: int) -> Strategy:
  """The strategy of GRPO-MA (arXiv:2509.24494): answers to each first turn.

  The first turn is played once for each tree, and from what the environment
  answers to it `count` sequences go on. Where it ends the episode they are one.

  Args:
    count: sequences of a first turn; prompts.samples is a multiple of it.
  """

  def strategy(
    engine: engine_lib.Engine,
    env: base.Env,
    chat: chat_lib.Chat,
    tasks: Sequence[episode.Task],
    plan: strategies.Plan,
  ) -> list[episode.Episode]:
    """Multi-turn episodes with `tree` and `node`; as `strategies.multi_turn`.

    Raises:
      ValueError: samples that are no multiple of the answers.
    """
    _check_share('answers', count, plan)
    made = [
      _started(env, chat, task, place, plan.samples // count, plan)
      for place, task in enumerate(tasks)
    ]
    _turn(made, engine, env, chat, plan)
    for one in made:
      for leaf in one.leaves[:]:
        if not leaf.row.status:
          for _ in range(count - 1):
            _fork(one, leaf, leaf.row, leaf.nodes)
    _play(made, engine, env, chat, plan)
    return [e for one in made for e in _episodes(one)]

  strategy.gives = _GIVES  # type: ignore[attr-defined]
  return strategy


def uncertain(
  chains: int, *, base_rate: float = 0.5, weight: float = 4.0, first: int = 20
) -> Strategy:
  """The strategy of ARPO (arXiv:2507.19849): branches where a tool surprises.

  `chains` sequences begin. After each answer of the environment the entropy of
  the next turn's first tokens is compared with that of the sequence's first
  turn; with the probability base_rate + weight * the difference, in shares of
  log V and cut to [0, 1], the state gets a second continuation, as long as
  there are samples left. What is left when all have ended are fresh chains. The
  official code adds up entropies of the ten likeliest tokens over twenty; here
  it is their mean over all tokens, and a weight of 4 is of that size.

  Args:
    chains: sequences that begin; at most prompts.samples.
    base_rate: the probability without a difference.
    weight: of the difference.
    first: tokens of a turn whose entropy counts.
  """

  def strategy(
    engine: engine_lib.Engine,
    env: base.Env,
    chat: chat_lib.Chat,
    tasks: Sequence[episode.Task],
    plan: strategies.Plan,
  ) -> list[episode.Episode]:
    """Multi-turn episodes with `tree` and `node`; as `strategies.multi_turn`.

    Raises:
      ValueError: fewer samples than chains, or an engine without entropies.
    """
    if not 1 <= chains <= plan.samples:
      raise ValueError(
        f'branching.uncertain: {chains} chains of {plan.samples} samples; set'
        ' prompts.samples to as many or more.'
      )
    asked = plan.sampling._replace(entropy=True)
    plan = plan._replace(sampling=asked)
    made = [
      _started(env, chat, task, place, chains, plan)
      for place, task in enumerate(tasks)
    ]
    rngs = [np.random.default_rng([*plan.path, one.place]) for one in made]
    chance = functools.partial(
      branch_probability, base_rate=base_rate, weight=weight
    )
    while _turn(made, engine, env, chat, plan):
      for one, rng in zip(made, rngs):
        for leaf in one.leaves[:]:
          if len(one.leaves) == plan.samples:
            break
          surprise = _surprise(leaf, first, len(chat.tokenizer))
          if surprise is not None and rng.random() < chance(surprise):
            _branch(one, leaf, len(leaf.before) - 1)
    for one, task in zip(made, tasks):
      _more(one, env, chat, task, plan)
    _play(made, engine, env, chat, plan)
    return [e for one in made for e in _episodes(one)]

  strategy.gives = _GIVES  # type: ignore[attr-defined]
  return strategy


def branch_probability(
  surprise: float, *, base_rate: float = 0.5, weight: float = 0.2
) -> float:
  """The probability that a state gets a second continuation (ARPO).

  Args:
    surprise: the entropy of what comes less that of the first turn, in shares
      of the largest there is.
    base_rate: the probability of no surprise.
    weight: of the surprise.
  """
  return float(np.clip(base_rate + weight * surprise, 0, 1))


def _check_share(name: str, count: int, plan: strategies.Plan) -> None:
  if count < 1 or plan.samples % count:
    raise ValueError(
      f'branching.{name}: {plan.samples} samples cannot be shared out by'
      f' {count}; set prompts.samples to a multiple of it.'
    )


def _started(env, chat, task, place, count: int, plan) -> _Task:
  made = _Task(place)
  for _ in range(count):
    _grow(made, env, chat, task, plan)
  return made


def _grow(made: _Task, env, chat, task, plan) -> None:
  """A further tree, at its root."""
  sample = len(made.leaves)
  path = *plan.path, made.place
  row = strategies.start(env, chat, task, plan.limits, sample, path)
  trees = [leaf.tree for leaf in made.leaves]
  made.leaves.append(_Leaf(row, max(trees, default=-1) + 1, []))


def _more(made: _Task, env, chat, task, plan) -> None:
  """Fresh chains, until there are as many leaves as samples."""
  while len(made.leaves) < plan.samples:
    _grow(made, env, chat, task, plan)


def _branch(made: _Task, leaf: _Leaf, turn: int) -> None:
  """A leaf that goes on from where a turn of another begins."""
  _fork(made, leaf, leaf.before[turn], leaf.nodes[:turn])


def _fork(made: _Task, leaf: _Leaf, row, nodes: list[int]) -> None:
  new = row.copy(row.path)
  new.sample = len(made.leaves)
  made.leaves.append(_Leaf(new, leaf.tree, list(nodes)))
  made.leaves[-1].before = leaf.before[: len(nodes)]


def _turn(made: Sequence[_Task], engine, env, chat, plan) -> bool:
  """Lets all rows take a turn; whether any had one to take."""
  going = [
    (one, leaf) for one in made for leaf in one.leaves if not leaf.row.status
  ]
  if not going:
    return False
  requests = []
  for one, leaf in going:
    leaf.before.append(leaf.row.copy(leaf.row.path))
    leaf.nodes.append(one.node())
    turn = len(leaf.row.exchanges)
    requests.append(strategies.request(leaf.row, plan.limits, turn))
  sampling = plan.sampling._replace(stop=chat.stop)
  answers = resume.generate(engine.generate, requests, sampling)
  for (_, leaf), answer in zip(going, answers):
    leaf.row.take(answer)
    strategies.advance(
      leaf.row, answer.tokens, answer.finish, env, chat, plan.limits
    )
  return True


def _play(made: Sequence[_Task], engine, env, chat, plan) -> None:
  while _turn(made, engine, env, chat, plan):
    pass


def _surprise(leaf: _Leaf, first: int, vocab: int) -> float | None:
  """How much more uncertain the newest turn began than the first, or None.

  In shares of the entropy of a uniform choice. None before a second turn, and
  for a leaf that has not taken its next one.
  """
  turn = len(leaf.before) - 1
  if turn < 1 or turn >= len(leaf.row.exchanges):
    return None
  entropy = np.array(leaf.row.entropy)
  on = np.array(leaf.row.mask)
  turns = np.array(leaf.row.turn)
  means = []
  for index in (0, turn):
    here = entropy[on & (turns == index)][:first]
    if not here.size or np.any(np.isnan(here)):
      raise ValueError(
        'branching.uncertain: the engine tells no entropies, which decide where'
        ' rollouts branch; choose an engine that does, or branching.tree.'
      )
    means.append(here.mean())
  return float((means[1] - means[0]) / np.log(vocab))


def _episodes(one: _Task) -> list[episode.Episode]:
  return [_told(leaf) for leaf in one.leaves]


def _told(leaf: _Leaf) -> episode.Episode:
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
arpo = uncertain(4)
