"""Rollouts that branch where the environment's answer surprises: ARPO's."""

import functools

import numpy as np

from arl.rollout import branching, costs, strategies


def uncertain(
  chains: int, *, base_rate: float = 0.5, weight: float = 4.0, first: int = 20
) -> strategies.Strategy:
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

  def strategy(engine, env, chat, tasks, plan):
    """Multi-turn episodes with `tree` and `node`; as `strategies.multi_turn`.

    Raises:
      ValueError: fewer samples than chains, or an engine without entropies.
    """
    if not 1 <= chains <= plan.samples:
      raise ValueError(
        f'arpo.uncertain: {chains} chains of {plan.samples} samples; set'
        ' prompts.samples to as many or more.'
      )
    asked = plan.sampling._replace(entropy=True)
    plan = plan._replace(sampling=asked)
    made = [
      branching.started(env, chat, task, place, chains, plan)
      for place, task in enumerate(tasks, plan.first)
    ]
    rngs = {
      one.place: np.random.default_rng([*plan.path, one.place]) for one in made
    }
    chance = functools.partial(
      branch_probability, base_rate=base_rate, weight=weight
    )
    while going := branching.take_turn(made, engine, env, chat, plan):
      for one, leaf in going:
        surprise = _surprise(leaf, first, len(chat.tokenizer))
        if surprise is None or len(one.leaves) == plan.samples:
          continue
        if rngs[one.place].random() < chance(surprise):
          branching.branch(one, leaf, len(leaf.before) - 1)
    for one, task in zip(made, tasks):
      branching.grow(one, plan.samples, env, chat, task, plan)
    branching.play(made, engine, env, chat, plan)
    return [e for one in made for e in branching.episodes(one)]

  strategy.gives = branching.GIVES  # type: ignore[attr-defined]
  strategy.tells = costs.branched  # type: ignore[attr-defined]
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


def _surprise(leaf: branching.Leaf, first: int, vocab: int) -> float | None:
  """How much more uncertain the newest turn began than the first, or None.

  In shares of the entropy of a uniform choice. None before a second turn, and
  where the environment failed.
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
        'arpo.uncertain: the engine tells no entropies, which decide where'
        ' rollouts branch; choose an engine that does, or branching.tree.'
      )
    means.append(here.mean())
  return float((means[1] - means[0]) / np.log(vocab))


four = uncertain(4)
