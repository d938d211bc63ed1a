"""What steering rollouts gives and costs: each strategy against plain ones.

  python -m experiments.studies.steering [--quick] [--workdir=DIR]

Small models of the key-door chain and of the tool task, the warm starts of
`experiments.studies.worlds` and what it trains from one, are rolled out on
held-out tasks by each strategy and by independent chains of the same
randomness; nothing else is trained. Numbers are over tasks, with 95 % bootstrap
intervals, and every bill counts what was thrown away. Prints a JSON object a
line and rewrites experiments/results/steering.md.
"""

import json
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from arl import episode
from arl.rollout import (
  beams,
  costs,
  distances,
  diverse,
  forced_tools,
  strategies,
  t2po,
)
from arl.train import build
from experiments import world as config_of
from experiments.studies import allotting, bills, runs, summary, worlds

TASKS, BASE = 32, 32  # held-out tasks, and chains of each
GROUP = allotting.GROUP
HOT = 0.7, 1.0, 1.2
ETAS = 0.05, 0.3  # nats; T2PO's is the second
HEADER = ('what is measured', 'value', 'aim')


class Played(NamedTuple):
  """A toy of the study.

  Attributes:
    env: its world, one of `experiments.worlds`.
    run: (folder, env, seed, quick) -> what trains its policy from a warm start,
      or the warm start itself.
    measures: of it.
  """

  env: str
  run: Callable[[pathlib.Path, str, int, bool], runs.Run]
  measures: tuple[Callable[[bills.Toy], Iterator[bills.Line]], ...]


def toy(played: Played, tasks: int) -> bills.Toy:
  """The world with its policy, which is trained where it is missing."""
  root, quick = runs.root() / 'worlds', runs.quick()
  needed = worlds.warm_start(root, played.env, 0, quick)
  runs.make([needed])
  if played.run is not worlds.warm_start:
    needed = played.run(root, played.env, 0, quick)
    runs.make([needed])
  argument = f'env={played.env},model={needed.workdir / "final"}'
  world = build.world(config_of.get_config(argument))
  held = bills.held_out(world, tasks)
  chains = bills.play(world, strategies.multi_turn, held, BASE, 0)
  return bills.Toy(world, held, chains)


def retries(made: bills.Toy) -> Iterator[bills.Line]:
  """T2PO's turns that are sampled again: repeated actions, and the bill."""
  plain = bills.first(made.chains, GROUP)
  per_turn = bills.ratio(plain.tokens, plain.turns)[0]
  yield from _repeated('t2po/chains', plain)
  for eta in ETAS:
    strategy = t2po.controlled(t2po.Turns(eta=eta))
    ours = bills.play(made.world, strategy, made.tasks, GROUP, 0)
    name = f't2po/eta_{eta}'
    yield from _repeated(name, ours, 'less')
    told = costs.steered([e for group in ours.episodes for e in group])
    yield bills.Line(f'{name}/resample_frac', told['resample_frac'])
    spent = bills.ratio(ours.tokens, bills.turns(ours.episodes))[0]
    yield bills.Line(f'{name}/tokens_per_turn', spent / per_turn)
    gap = bills.success(ours.episodes) - bills.success(plain.episodes)
    yield bills.Line(f'{name}/success_gap', *bills.mean(gap), '>= 0')


def _repeated(
  name: str, bill: bills.Bill, aim: str = ''
) -> Iterator[bills.Line]:
  """The share of later turns, if any, whose action is the one before."""
  again, later = [], []
  for group in bill.episodes:
    pairs = [
      (before.action, now.action)
      for one in group
      for before, now in zip(one.exchanges, one.exchanges[1:])
    ]
    again.append(sum(before == now for before, now in pairs))
    later.append(len(pairs))
  if any(later):
    share = bills.ratio(np.array(again), np.array(later))
    yield bills.Line(f'{name}/repeated', *share, aim)


def tools(made: bills.Toy) -> Iterator[bills.Line]:
  """How many tools a group of the tool task tries."""
  count = GROUP
  names = [tool.name for tool in made.world.env.tools]

  def tried(groups):
    return [
      len({n for one in g for e in one.exchanges for n in names
           if e.action.startswith(f'{n}(')})
      for g in groups
    ]  # fmt: skip

  plain = bills.first(made.chains, count)
  yield bills.Line('eps_tool/0', *bills.mean(tried(plain.episodes)))
  for eps in (0.01, 0.05, 0.25):
    ours = bills.play(
      made.world, forced_tools.masked, made.tasks, count, 0, tool_eps=eps
    )
    rise = np.subtract(tried(ours.episodes), tried(plain.episodes))
    yield bills.Line(f'eps_tool/{eps}', *bills.mean(tried(ours.episodes)))
    yield bills.Line(f'eps_tool/{eps}/rise', *bills.mean(rise), '> 0')
    gap = bills.success(ours.episodes) - bills.success(plain.episodes)
    yield bills.Line(f'eps_tool/{eps}/success_gap', *bills.mean(gap))


def variety(made: bills.Toy) -> Iterator[bills.Line]:
  """Plans that differ, and beams that do."""
  plain = bills.first(made.chains, GROUP)
  ours = bills.play(made.world, diverse.plans, made.tasks, GROUP, 0)
  few = made.tasks[: max(len(made.tasks) // 8, 1)]
  searched = bills.play(made.world, beams.four, few, GROUP, 0)
  for name, bill in (('plain', plain), ('plans', ours), ('beams', searched)):
    for what, measure in (
      ('plan_distance', lambda g: distances.pairwise(_plans(g))),
      ('distinct_plans', lambda g: len(set(_plans(g)))),
      ('outcomes', lambda g: len({episode.total_reward(e) for e in g})),
      ('solved_once', lambda g: float(any(map(bills.solved, g)))),
    ):
      values = [measure(group) for group in bill.episodes]
      aim = 'more' if name == 'plans' and what != 'solved_once' else ''
      yield bills.Line(f'diverse/{name}/{what}', *bills.mean(values), aim)
  yield bills.Line(
    'diverse/plans/tokens', *bills.ratio(ours.tokens, plain.tokens)
  )
  gap = bills.success(ours.episodes) - bills.success(plain.episodes)
  yield bills.Line('diverse/plans/success_gap', *bills.mean(gap))


def _plans(group: Sequence[episode.Episode]) -> list[str]:
  return [one.exchanges[0].action for one in group if one.exchanges]


def heat(made: bills.Toy) -> Iterator[bills.Line]:
  """The largest gap between stored log-probs and scores at a temperature."""
  few = made.tasks[:8]
  for temperature in HOT:
    ours = bills.play(
      made.world, strategies.multi_turn, few, GROUP, 0, temperature
    )
    rows = [one for group in ours.episodes for one in group]
    for name, by in (('own', temperature), ('one', 1.0)):
      scores = made.world.engine.score([e.tokens.tolist() for e in rows], by)
      gap = max(
        float(np.abs(s - e.logp)[e.mask].max()) for s, e in zip(scores, rows)
      )
      aim = '< 0.001' if name == 'own' else ''
      yield bills.Line(f'temperature/{temperature}/by_{name}', gap, None, aim)


_ALLOTTED = allotting.groups, allotting.branches
TOYS = {
  'keydoor': Played('keydoor', worlds.warm_start, (*_ALLOTTED, retries)),
  'keydoor_trained': Played(
    'keydoor',
    worlds.trained,
    (allotting.stops, allotting.cuts, retries),
  ),
  'tools': Played(
    'tools',
    worlds.warm_start,
    (*_ALLOTTED, allotting.stops, retries, tools, variety, heat),
  ),
}


def lines(name: str) -> list[bills.Line]:
  """What is measured of a toy, kept in the workdir once it is there."""
  path = runs.root() / 'steering' / f'{name}.json'
  if not path.exists():
    made = toy(TOYS[name], 4 if runs.quick() else TASKS)
    told = [one for measure in TOYS[name].measures for one in measure(made)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told))
  return [bills.Line(*one) for one in json.loads(path.read_text())]


def main(argv: list[str]) -> None:
  del argv
  body = []
  for toy_name in TOYS:
    for one in lines(toy_name):
      name = f'steering/{toy_name}/{one.name}'
      runs.line(name, one.value, '', one.aim, (0,), one.interval)
      cell = runs.spread(one.value, one.interval)
      body.append([f'{toy_name}: {one.name}', cell, one.aim])
  if not runs.quick():
    runs.write_table(runs.RESULTS / 'steering.md', HEADER, body)
    summary.write()


if __name__ == '__main__':
  runs.start(main)
