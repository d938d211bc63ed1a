"""How rollouts are allotted: groups, branches, stops and cuts, measured.

Parts of `experiments.studies.steering`, each of which tells lines of a toy.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from arl import episode
from arl.rollout import arpo, branching, early_stop, selective
from experiments.studies import bills

GROUP, WIDE, APART = 8, 16, 24  # of a group, of a wide one, apart from both


def groups(made: bills.Toy) -> Iterator[bills.Line]:
  """Mixed groups against 1 - p^G - (1-p)^G, p being that of each task.

  p^G is estimated without bias, from other chains: C(k, G) / C(n, G). The gap
  is told in standard errors of so many mixed groups of those probabilities.
  """
  chains = made.chains.episodes
  seen = [float(bills.mixed(group[APART:])) for group in chains]
  yield bills.Line('group/mixed', *bills.mean(seen))
  counts = [sum(map(bills.solved, group[:APART])) for group in chains]
  whole = math.comb(APART, GROUP)
  want = [
    1 - (math.comb(k, GROUP) + math.comb(APART - k, GROUP)) / whole
    for k in counts
  ]
  yield bills.Line('group/mixed_expected', *bills.mean(want))
  error = math.sqrt(sum(p * (1 - p) for p in want)) / len(want)
  gap = (np.mean(seen) - np.mean(want)) / error if error else 0.0
  yield bills.Line('group/gap_in_errors', float(gap), None, 'within 2')
  same = [len({_opening(one) for one in group}) == 1 for group in chains]
  yield bills.Line('group/same_opening', *bills.mean(same), '1')


def _opening(one: episode.Episode) -> bytes:
  return one.tokens[: int(np.argmax(one.mask))].tobytes()


def branches(made: bills.Toy) -> Iterator[bills.Line]:
  """ARPO and trees against as many finished chains."""
  for name, strategy, count, aim in (
    ('arpo', arpo.four, GROUP, '< 1'),
    ('tree', branching.two_trees, 6, '<= 0.77'),
  ):
    plain = bills.first(made.chains, count)
    ours = bills.play(made.world, strategy, made.tasks, count, 0)
    yield bills.Line(
      f'{name}/tokens', *bills.ratio(ours.tokens, plain.tokens), aim
    )
    yield bills.Line(
      f'{name}/calls', *bills.ratio(ours.turns, plain.turns), aim
    )
    gap = bills.success(ours.episodes) - bills.success(plain.episodes)
    yield bills.Line(f'{name}/success_gap', *bills.mean(gap), 'holds 0')
  yield from _surprises(made)


def _surprises(made: bills.Toy) -> Iterator[bills.Line]:
  """How often ARPO branches by how much the entropy rose, in halves.

  Of one chain with room for many branches, where there was room left.
  """
  ours = bills.play(made.world, arpo.uncertain(1), made.tasks, 2 * WIDE, 0)
  told: list[tuple[float, bool]] = []
  vocab = len(made.world.tokenizer)
  for group in ours.episodes:
    first = [one for one in group if one.extras['tree'][0] == 0]
    if len(first) < len(group):
      told += _decisions(first, math.log(vocab))
  if len(told) < 2:
    return
  told.sort(key=lambda one: one[0])
  half = (len(told) + 1) // 2
  for name, few in (('low', told[:half]), ('high', told[half:])):
    share = [float(branched) for _, branched in few]
    yield bills.Line(f'arpo/branch_rate_{name}', *bills.mean(share))


def _decisions(
  rows: Sequence[episode.Episode], most: float
) -> list[tuple[float, bool]]:
  """Of each turn that was judged: how much the entropy rose; a branch or not.

  Turns of a tree that begin alike are one decision, on the first of them.
  """
  found: dict[tuple[int, ...], dict[int, float]] = {}
  for one in rows:
    nodes = _nodes(one)
    entropy = [_entropy(one, turn) for turn in range(len(nodes))]
    for turn in range(1, len(nodes)):
      rise = (entropy[turn] - entropy[0]) / most
      found.setdefault(nodes[:turn], {}).setdefault(nodes[turn], rise)
  return [
    (by_node[min(by_node)], len(by_node) > 1) for by_node in found.values()
  ]


def _nodes(one: episode.Episode) -> tuple[int, ...]:
  turns = range(int(one.turn[one.mask].max()) + 1)
  at = [int(np.argmax(one.mask & (one.turn == turn))) for turn in turns]
  return tuple(int(one.extras['node'][i]) for i in at)


def _entropy(one: episode.Episode, turn: int) -> float:
  here = one.mask & (one.turn == turn)
  return float(one.extras['rollout_entropy'][here].mean())


def stops(made: bills.Toy) -> Iterator[bills.Line]:
  """Early stop by entropy, whose threshold other tasks have given."""
  half = len(made.tasks) // 2
  few = [group[:4] for group in made.chains.episodes]
  entropies = [early_stop.turn_entropy(group) for group in few]
  floor = float(np.quantile(entropies[half:], early_stop.LOW))
  stopped = np.array(
    [
      entropy < floor and not bills.mixed(group)
      for entropy, group in zip(entropies[:half], few)
    ]
  )
  wide = bills.first(made.chains, WIDE)
  would = np.array([bills.mixed(g) for g in wide.episodes[:half]])
  rest = wide.tokens[:half] - bills.sampled(few[:half])
  yield bills.Line('early_stop/stopped', *bills.mean(stopped))
  yield bills.Line(
    'early_stop/tokens_freed',
    *bills.ratio(rest * stopped, wide.tokens[:half]),
    '0.2 to 0.3',
  )
  if np.any(stopped):
    false = bills.ratio(would & stopped, stopped)
    yield bills.Line('early_stop/false_stops', *false)
  ours = bills.play(
    made.world, early_stop.four, made.tasks[:half], WIDE, 0,
    entropy_floor=floor,
  )  # fmt: skip
  tokens = bills.ratio(ours.tokens, wide.tokens[:half])
  yield bills.Line('early_stop/tokens', *tokens)
  after = np.array([bills.mixed(g) for g in ours.episodes], float)
  yield bills.Line('early_stop/mixed_gap', *bills.mean(after - would), '>= 0')
  gap = bills.success(ours.episodes) - bills.success(wide.episodes[:half])
  yield bills.Line('early_stop/success_gap', *bills.mean(gap), 'holds 0')


def cuts(made: bills.Toy) -> Iterator[bills.Line]:
  """Selective rollouts against what the groups would have come to."""
  each = range(0, len(made.chains.episodes[0]), GROUP)
  whole = [g[i : i + GROUP] for g in made.chains.episodes for i in each]
  total = bills.sampled(whole)
  dull = np.array([not bills.mixed(group) for group in whole])
  yield bills.Line('selective/unvaried', *bills.mean(dull))
  for turns in (2, 4):
    cut = np.array([_alike(group, turns) for group in whole])
    later = np.array([_after(group, turns) for group in whole], float)
    name = f'selective/{turns}_turns'
    yield bills.Line(f'{name}/cut', *bills.mean(cut))
    if np.any(cut):
      yield bills.Line(
        f'{name}/precision', *bills.ratio(cut & dull, cut), '0.81'
      )
    if np.any(dull):
      yield bills.Line(f'{name}/recall', *bills.ratio(cut & dull, dull))
    saved = bills.ratio(later * cut, total)
    yield bills.Line(f'{name}/tokens_saved', *saved, '0.14')


def _alike(group: Sequence[episode.Episode], turns: int) -> bool:
  if all(len(one.exchanges) <= turns for one in group):
    return False
  actions = [[e.action for e in one.exchanges] for one in group]
  return selective.alike(actions, turns)


def _after(group: Sequence[episode.Episode], turns: int) -> int:
  return sum(int(np.sum(one.mask & (one.turn >= turns))) for one in group)
