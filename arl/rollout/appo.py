"""Rollouts that branch inside turns, where a choice mattered: APPO's."""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.rollout import branching, costs, inside, strategies


def gains(logp: np.ndarray, ref_logp: np.ndarray, width: int) -> np.ndarray:
  """How much likelier the tokens after each are to the policy, nats a token.

  Than to the reference: the mean over the `width` tokens that follow, or as
  many as there are; 0 after the last. [n].
  """
  total = np.concatenate([[0.0], np.cumsum(logp - ref_logp, dtype=np.float64)])
  n = len(logp)
  first = np.arange(1, n + 1)
  last = np.minimum(first + width, n)
  return (total[last] - total[first]) / np.maximum(last - first, 1)


def standard(x: np.ndarray) -> np.ndarray:
  """(x - mean) / deviation, [n]; 0 where x does not vary."""
  spread = np.ptp(x) > 1e-9 * max(float(np.max(np.abs(x))), 1.0)
  return (x - np.mean(x)) / np.std(x) if spread else np.zeros(len(x))


def scores(entropy: np.ndarray, gain: np.ndarray) -> np.ndarray:
  """How much a branch at each token of a response would tell, [n].

  z(entropy) * max(0, z(gain)) within the response (APPO, arXiv:2606.12384).
  """
  return standard(entropy) * np.maximum(standard(gain), 0)


def best(
  worth: np.ndarray, count: int, rng: np.random.Generator, last: float = 0.2
) -> np.ndarray:
  """The places of the highest, the best first; equal ones in any order.

  Args:
    worth: of the places, [n].
    count: how many to give, if there are as many.
    rng: to choose between equal ones.
    last: the share of the places at the end that do not count.
  """
  n = len(worth) - int(last * len(worth))
  order = rng.permutation(n)
  return order[np.argsort(-worth[order], kind='stable')][:count]


def deciding(
  chains: int, *, count: int = 2, width: int = 32
) -> strategies.Strategy:
  """The strategy of APPO (arXiv:2606.12384): branches where it was decided.

  `chains` episodes are played. In each the `count` tokens are found at which
  the policy was uncertain and went on as the policy it started from would not
  have: by `scores`, all that it sampled in the episode being one response. From
  there the other samples go on, anew from that token, shared out among chains
  and tokens, the best first. Without a reference no token has a gain, and any
  is as good. Status: abstract read; the formula of the score is from a third
  party, that branches are shared out so is ours.

  Args:
    chains: episodes of a task that begin at the prompt; prompts.samples is a
      multiple of it.
    count: tokens of a chain at which others begin.
    width: tokens after one that count for its gain.
  """

  def strategy(engine, env, chat, tasks, plan, *, teacher=None):
    """Multi-turn episodes with `tree` and `node`; as `strategies.multi_turn`.

    Args:
      teacher: the reference, which scores what was sampled; None for none.

    Raises:
      ValueError: samples that are no multiple of the chains, or an engine
        without entropies.
    """
    branching.check_share('appo.deciding', chains, plan)
    plan = plan._replace(sampling=plan.sampling._replace(entropy=True))
    made = [
      branching.started(env, chat, task, place, chains, plan)
      for place, task in enumerate(tasks, plan.first)
    ]
    branching.play(made, engine, env, chat, plan)
    grown = [[inside.Offshoot(leaf) for leaf in one.leaves] for one in made]
    rows = [each.leaf.row for roots in grown for each in roots]
    told = iter(_worths(rows, teacher, plan, width))
    for one, roots in zip(made, grown):
      rng = np.random.default_rng([*plan.path, one.place])
      for root in list(roots):
        places = _places(root.leaf.row, next(told), count, rng)
        for i in range(plan.samples // chains - 1 if len(places) else 0):
          roots.append(inside.branch(one, root, places[i % len(places)]))
    branches = [x for roots in grown for x in roots if x.parent]
    inside.finish_turns(branches, engine, env, chat, plan)
    branching.play(made, engine, env, chat, plan)
    return [one for roots in grown for one in inside.episodes(roots)]

  strategy.gives = branching.GIVES  # type: ignore[attr-defined]
  strategy.takes = frozenset({'teacher'})  # type: ignore[attr-defined]
  strategy.tells = costs.branched  # type: ignore[attr-defined]
  return strategy


def _worths(
  rows: Sequence[strategies.Live], teacher, plan, width: int
) -> list[np.ndarray]:
  """The scores of the tokens that each row sampled."""
  asked = [row for row in rows if row.status in episode.GRADED]
  if teacher is None:
    refs = [np.array(row.logp) for row in asked]
  else:
    tokens = [row.tokens for row in asked]
    refs = teacher.score(tokens, plan.sampling.temperature)
  known = dict(zip(map(id, asked), refs, strict=True))
  made = []
  for row in rows:
    if id(row) not in known:
      made.append(np.zeros(0))
      continue
    on = np.array(row.mask, bool)
    logp, entropy = np.array(row.logp)[on], np.array(row.entropy)[on]
    if np.any(np.isnan(entropy)):
      raise ValueError(
        'appo.deciding: the engine tells no entropies, which decide where'
        ' rollouts branch; choose an engine that does, or branching.tree.'
      )
    made.append(scores(entropy, gains(logp, known[id(row)][on], width)))
  return made


def _places(row, worth: np.ndarray, count: int, rng) -> list[int]:
  """Where others leave a row; nowhere if it has no grade."""
  sampled = np.flatnonzero(row.mask)
  return [int(sampled[i]) for i in best(worth, count, rng)]


two = deciding(2)
