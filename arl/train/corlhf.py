"""CoRLHF: a policy and the reward model that it is trained on, in one loop.

A policy that climbs a fixed reward model finds where the model is wrong. Here
each batch is judged twice: by the environment, whose pairs correct the reward
model, and then by the model, which is all that the policy learns from. Half of
its pairs are fresh and half are replayed, and an update after which it is worse
on pairs that it never learns is undone. (Expert Systems with Applications 2026,
of which only a survey's description was read; the nearest that is public is
Cooper, arXiv:2508.05613.)

Two models, two methods and a loop of their own: what `loop` offers beyond it,
such as resuming, is not here.
"""

import collections
import contextlib
import functools
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from arl import episode, names
from arl.evaluate import summary
from arl.models import critics, functional
from arl.prompts import pairs
from arl.train import (
  batch,
  build,
  choosing,
  claim,
  evaluation,
  export,
  fills,
  judges,
  metrics,
  progress,
  settings,
)

SCHEMA = {
  **settings.TRAIN,
  'ranking': {
    'margin': float,
    'centering': float,
    'lr': float,
    'pairs': int,
    'replayed': int,
    'held_out': int,
    'gate': float,
  },
}
_SHOWN = {
  'success': 'train/success',
  'score': 'reward/mean',
  'pairs right': 'ranking/held_out',
}


class Side(NamedTuple):
  """One of the two models: its config, how it learns and where it is."""

  config: ml_collections.ConfigDict
  learner: build.Learner
  now: Any


class Pools(NamedTuple):
  """Pairs that are never learnt, those to replay, and the best accuracy."""

  held: list[episode.Group]
  kept: list[episode.Group]
  best: float


def train(config: ml_collections.ConfigDict, workdir: str) -> None:
  """Trains both; writes metrics.jsonl, results.json and `final`.

  The reward model is in `final/critic`; success is the environment's.

  Args:
    config: that of `loop.train`, and the block `ranking`: the margin and the
      centering of `reward.bt`, its learning rate, pairs of an update, pairs
      that are kept to replay, pairs that are never learnt, and by how much the
      accuracy on those may fall below its best.
    workdir: of this run, which begins anew whatever is there.

  Raises:
    ValueError, TypeError: a setting that cannot work, or a workdir that another
      run writes to.
  """
  folder = pathlib.Path(workdir).absolute()
  with claim.held(folder):
    metrics.truncate(folder, 0)
    _train(config, folder)


def _train(config: ml_collections.ConfigDict, folder: pathlib.Path) -> None:
  # --- Set up -----------------------------------------------------------------
  world, policy, model = sides(config)
  read, pools = judges.reader(world.loaded.model), Pools([], [], 0.0)
  strategy = names.resolve(config.rollout.strategy, 'arl.rollout')
  select = names.resolve(config.prompts.select, 'arl.prompts')
  tasks_of = choosing.task_stream(policy.config, world.env)
  heat, everything = config.rollout.temperature, np.zeros(0)
  sampling = evaluation.training(heat, policy.learner)
  held = evaluation.held_out(world, 0, config.eval.final_tasks)
  judge = lambda: evaluation.evaluate(world, held, heat, (evaluation.FINAL,))
  results = {'before': judge()}

  with (
    contextlib.closing(metrics.open_log(folder)) as log,
    progress.track(config.steps, config.method.name) as report,
  ):
    for step in range(config.steps):
      # --- Roll out -----------------------------------------------------------
      path = (evaluation.TRAINING, step)
      plan = evaluation.plan(world, config.prompts.samples, sampling, path)
      episodes = strategy(
        world.engine, world.env, world.chat, tasks_of(step), plan
      )
      batch.check_failed(episodes, config.rollout.max_failed)
      groups = episode.groups([e for e in episodes if episode.graded(e)])
      flat = [one for group in groups for one in group.episodes]

      # --- Correct the reward model, and ask it -------------------------------
      fresh = pairs.best_against_worst(groups)
      model, pools, row = correct(
        read, model, pools, fresh, step, config.ranking
      )
      given = scores(read, model, flat)
      everything = np.append(everything, given)
      white = (given - everything.mean()) / (everything.std() + 1e-6)

      # --- Train the policy on what it says -----------------------------------
      policy, seen = update(policy, select(rewarded(groups, white)), step)
      params = export.policy_params(policy.now.params)
      world.engine.set_params(params, step + 1)
      row |= {**seen, 'train/success': summary.success(episodes)['success']}
      row['reward/mean'] = float(given.mean())
      log.write(step + 1, row)
      report(step + 1, {name: row[key] for name, key in _SHOWN.items()})

  head = model.now.params[functional.VALUE_HEAD]
  both = {**policy.now.params, functional.VALUE_HEAD: head}
  export.save(folder / 'final', both, world.loaded.sizes, world.tokenizer)
  results['after'] = judge()
  (folder / 'results.json').write_text(json.dumps(results, indent=2) + '\n')


def sides(
  config: ml_collections.ConfigDict,
) -> tuple[build.World, Side, Side]:
  """The world, the policy, and the reward model, which begins as its copy.

  Raises:
    ValueError, TypeError: a setting that cannot work, with the fix.
  """
  settings.check(config, SCHEMA)
  if config.ranking.pairs < 2 or config.prompts.samples < 2:
    raise ValueError(
      f'corlhf: ranking.pairs is {config.ranking.pairs} and prompts.samples'
      f' {config.prompts.samples}; each must be 2 or more.'
    )
  policy = ml_collections.ConfigDict(config.to_dict())
  r = policy.ranking
  del policy['ranking']
  model = ml_collections.ConfigDict(policy.to_dict())
  del model['method']
  model.method = {
    'name': 'reward.bt', 'margin': r.margin, 'centering': r.centering,
  }  # fmt: skip
  model.model.update(critic='own', value_bins=0, teacher='')
  model.optimizer.lr = r.lr
  model.prompts.update(samples=2, batch=r.pairs)
  model.updates.update(per_batch=1, frozen='')
  methods = [build.check(policy), build.check(model)]
  world = build.world(policy)

  def side(block, method):
    learner = build.learner(block, method, world.loaded)
    return Side(block, learner, learner.state)

  return world, side(policy, methods[0]), side(model, methods[1])


def update(
  side: Side, groups: Sequence[episode.Group], step: int
) -> tuple[Side, dict[str, float]]:
  """The side after it learnt from groups, and what was seen."""
  if not groups:
    return side, {}
  c, seen = side.config, collections.defaultdict(list)
  parts = batch.updates(groups, c.updates.per_batch)
  told = functools.partial(
    fills.from_loop, seed=c.seed, step=step, steps=c.steps, knobs={}
  )
  width, turns = c.rollout.context, c.rollout.max_turns
  data = batch.make(
    side.learner, side.now.params, parts,
    width=width, max_turns=turns, from_loop=told,
  )  # fmt: skip
  now = side.now
  for index in [i for i, part in enumerate(parts) if part] * c.updates.epochs:
    part = batch.update(data, index, side.learner.rows)
    now, facts = side.learner.step(now, *part, **side.learner.taught)
    for name, value in facts.items():
      seen[name].append(float(value))
  return side._replace(now=now), {n: float(np.mean(v)) for n, v in seen.items()}


def correct(
  read: Callable,
  model: Side,
  pools: Pools,
  fresh: list[episode.Group],
  step: int,
  block: ml_collections.ConfigDict,
) -> tuple[Side, Pools, dict[str, float]]:
  """The reward model after it learnt from pairs, unless that did harm."""
  fresh = [  # tasks come again
    group._replace(episodes=[
      one._replace(task=one.task._replace(id=f'{one.task.id}@{step}'))
      for one in group.episodes
    ])
    for group in fresh
  ]  # fmt: skip
  lacking = max(block.held_out - len(pools.held), 0)
  held, fresh = [*pools.held, *fresh[:lacking]], fresh[lacking:]
  half = block.pairs // 2 if pools.kept else block.pairs
  rng = np.random.default_rng((model.config.seed, step))
  count = min(block.pairs - half, len(pools.kept))
  again = rng.permutation(len(pools.kept))[:count]
  chosen = [*fresh[:half], *(pools.kept[i] for i in again)]
  kept = [*pools.kept, *fresh][-block.replayed :]
  before = model._replace(now=jax.tree.map(jnp.copy, model.now))
  moved, seen = update(model, chosen, step)
  at = accuracy(read, moved, held)
  harmful = at < pools.best - block.gate
  made = {f'ranking/{name}': value for name, value in seen.items()}
  made |= {'ranking/held_out': at, 'ranking/undone': float(harmful)}
  pools = Pools(held, kept, max(pools.best, at))
  return before if harmful else moved, pools, made


def scores(
  read: Callable, side: Side, episodes: Sequence[episode.Episode]
) -> np.ndarray:
  """The reward model's score of each episode: after its last sampled token."""
  params = critics.alone(side.now.params)
  made = judges.read(read, params, [one.tokens for one in episodes])
  ends = [np.flatnonzero(one.mask)[-1] for one in episodes]
  return np.array([float(values[end]) for values, end in zip(made, ends)])


def accuracy(
  read: Callable, side: Side, held: Sequence[episode.Group]
) -> float:
  """The share of pairs whose better episode scores higher; 0 of no pairs."""
  flat = [one for pair in held for one in pair.episodes]
  made = scores(read, side, flat)
  return float(np.mean(made[::2] > made[1::2])) if held else 0.0


def rewarded(
  groups: Sequence[episode.Group], given: Sequence[float]
) -> list[episode.Group]:
  """The groups, whose episodes earn what is given and nothing else."""
  each = iter(given)

  def paid(one):
    rewards = np.zeros_like(one.rewards)
    rewards[np.flatnonzero(one.mask)[-1]] = next(each)
    return one._replace(rewards=rewards)

  return [g._replace(episodes=[paid(e) for e in g.episodes]) for g in groups]
