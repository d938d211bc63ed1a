"""What resets into failures are worth: a part of the study `retrying`."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode, names
from arl.envs import base
from arl.evaluate import summary
from arl.rollout import engine as engine_lib
from arl.rollout import resets, strategies
from experiments.studies import chains, forks

BUDGET = 24_000  # sampled tokens of a run
EVERY = 5  # batches, between two looks at held-out tasks
_SRPO = chains.Entrant(
  {'name': 'resets.srpo', 'base': chains.METHODS['GRPO'].method}, 'resets.srpo'
)
# Of each row: how it learns, and how well it knows its mistakes.
LEARNERS = {
  'GRPO': (chains.METHODS['GRPO'], 0.0),
  'RRPO': (chains.METHODS['RRPO'], 0.0),
  'SRPO, insight 0.3': (_SRPO, 0.3),
  'SRPO, insight 0.6': (_SRPO, 0.6),
  'SRPO, insight 0.9': (_SRPO, 0.9),
  'SRPO, told by an oracle': (chains.METHODS['SRPO, told by an oracle'], 0.0),
}


class Result(NamedTuple):
  """A number of each seed.

  Attributes:
    name: of the line.
    values: by seed.
    unit: of them.
  """

  name: str
  values: list[float]
  unit: str


def tasks_of(env: base.Env, split: str, first: int, count: int) -> list:
  return [env.task(split, first + i) for i in range(count)]


def plan_of(samples: int, limits: strategies.Limits, *path: int):
  return strategies.Plan(samples, engine_lib.Sampling(), limits, path)


def suffixes(seed: int, count: int) -> dict[str, float]:
  """How often episodes after a random reset succeed, by what it begins with."""
  env, walker = forks.make(), forks.Walker(forks.start(), seed, 0.0)
  tasks = tasks_of(env, base.TRAIN, 1000 * seed, count)
  plan = plan_of(8, forks.LIMITS, 2)
  made = resets.rrpo(walker, env, walker.chat, tasks, plan)
  by: dict[str, list[float]] = {'clean': [], 'erroneous': []}
  for one in made:
    if one.extras['tree'][0]:
      begun = int(one.turn[one.mask][0])
      state, clean = env.reset(one.task), True
      for exchange in one.exchanges[:begun]:
        clean &= exchange.action == env.oracle(state)
        state, _ = env.step(state, exchange.action)
      won = episode.total_reward(one)
      by['clean' if clean else 'erroneous'].append(won)
  return {kind: float(np.mean(won)) for kind, won in by.items()}


def at_first(name: str, seed: int, count: int) -> float:
  """Tasks solved per 1000 sampled tokens by the policy before it learns."""
  entrant, insight = LEARNERS[name]
  env, walker = forks.make(), forks.Walker(forks.start(), seed, insight)
  tasks = tasks_of(env, base.TRAIN, 1000 * seed, count)
  strategy = names.resolve(entrant.strategy, 'arl.rollout')
  plan = plan_of(8, forks.LIMITS, 3)
  made = strategy(walker, env, walker.chat, tasks, plan)
  solved = [
    any(episode.total_reward(one) >= episode.SOLVED for one in group.episodes)
    for group in episode.groups(made)
  ]
  return 1000 * sum(solved) / walker.sampled


def learn(name: str, seed: int, budget: int) -> dict[str, Any]:
  """Held-out success by sampled tokens, and how right resets were."""
  entrant, insight = LEARNERS[name]
  env, params = forks.make(), forks.start()
  walker = forks.Walker(params, seed, insight)
  made = chains.learner(entrant, params)
  strategy = names.resolve(entrant.strategy, 'arl.rollout')
  now, step, located = made.state, 0, []
  curve = [(0, _held_out(walker, env))]
  while walker.sampled < budget:
    first = (seed * 10_000 + step) * entrant.prompts
    tasks = tasks_of(env, base.TRAIN, first, entrant.prompts)
    plan = plan_of(entrant.samples, forks.LIMITS, 0, step)
    episodes = strategy(walker, env, walker.chat, tasks, plan)
    tells = getattr(strategy, 'tells', None)
    told = tells(episodes) if tells else {}
    located += [told['located']] if 'located' in told else []
    now = chains.update(made, now, episodes, 1)
    step += 1
    walker.set_params(now.params, step)
    if step % EVERY == 0 or walker.sampled >= budget:
      curve.append((walker.sampled, _held_out(walker, env)))
  tokens, success = zip(*curve)
  return {
    'success': float(np.interp(budget, tokens, success)),
    'area': float(np.trapezoid(success, tokens) / tokens[-1]),
    'located': float(np.mean(located)) if located else None,
  }


def _held_out(walker: forks.Walker, env: base.Env) -> float:
  spent = walker.sampled
  tasks = tasks_of(env, base.HELD_OUT, 0, 180)
  plan = plan_of(1, forks.LIMITS, 1, 0)
  found = strategies.multi_turn(walker, env, walker.chat, tasks, plan)
  walker.sampled = spent
  return summary.success(found)['success']


def of_resets(seeds: Sequence[int], quick: bool) -> Iterator[Result]:
  count, budget = (18, 2500) if quick else (360, BUDGET)
  found = [suffixes(seed, count) for seed in seeds]
  for kind in ('clean', 'erroneous'):
    values = [each[kind] for each in found]
    yield Result(f'resets/{kind}', values, 'success rate')
  for name in LEARNERS:
    values = [at_first(name, seed, count) for seed in seeds]
    unit = 'solved tasks per 1000 tokens'
    yield Result(f'resets/{name}/before', values, unit)
  for name in LEARNERS:
    told = [learn(name, seed, budget) for seed in seeds]
    for key, unit in (
      ('success', f'success rate after {budget} tokens'),
      ('area', 'mean success rate until then'),
      ('located', 'share of resets before the first mistake'),
    ):
      if told[0][key] is not None:
        values = [each[key] for each in told]
        yield Result(f'resets/{name}/{key}', values, unit)
