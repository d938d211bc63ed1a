"""One round of a step: tasks chosen and rolled out, whole or in parts."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import ml_collections
import numpy as np

from arl import episode
from arl.prompts import curricula
from arl.rollout import engine as engine_lib
from arl.rollout import partial
from arl.train import batch, build, carried, evaluation, turning


class Run(NamedTuple):
  """What plays: the parts of a run that rollouts need.

  Attributes:
    config: of the run.
    world: the host's side.
    strategy: how whole episodes are rolled out.
    sampling: how tokens are chosen.
    curriculum: what chooses tasks.
  """

  config: ml_collections.ConfigDict
  world: build.World
  strategy: Callable
  sampling: engine_lib.Sampling
  curriculum: curricula.Curriculum


class Now(NamedTuple):
  """When a round is played: its step and place there, and the sampler."""

  step: int
  version: int
  round_: int
  knobs: Mapping[str, float]


class Played(NamedTuple):
  """A round.

  Attributes:
    episodes: that came to an end; None where there was nothing to do.
    kept: with what the curriculum chose and what is unfinished.
    facts: metrics.
  """

  episodes: list[episode.Episode] | None
  kept: carried.Kept
  facts: dict[str, float]


class Player(NamedTuple):
  """How rounds are played.

  Attributes:
    play: (kept, now) -> Played.
    handed: (version) -> None; is told when the engine holds other weights.
    keep: (kept) -> kept, with what goes on meanwhile, for a checkpoint.
    close: () -> None; ends what goes on.
  """

  play: Callable[[carried.Kept, Now], Played]
  handed: Callable[[int], None] = lambda version: None
  keep: Callable[[carried.Kept], carried.Kept] = lambda kept: kept
  close: Callable[[], None] = lambda: None


def player(run: Run) -> Player:
  """Plays rounds one by one, in parts where config.rollout.budget says so."""
  play = _in_parts if run.config.rollout.budget else _whole
  return Player(functools.partial(play, run))


def _plan(run: Run, now: Now):
  return evaluation.plan(
    run.world,
    run.config.prompts.samples,
    run.sampling,
    evaluation.training_path(now.step, now.round_),
  )


def _whole(run: Run, kept: carried.Kept, now: Now) -> Played:
  tasks, chosen = run.curriculum.choose(kept.chosen, now.step)
  kept, world = kept._replace(chosen=chosen), run.world
  if not tasks:
    return Played(None, kept, {})
  episodes = turning.play(
    run.strategy, world.engine, world.env, world.chat, tasks, _plan(run, now),
    now.knobs,
  )  # fmt: skip
  batch.check_failed(episodes, run.config.rollout.max_failed)
  batch.check_versions(episodes, now.version)
  return Played(episodes, kept, {})


def _in_parts(run: Run, kept: carried.Kept, now: Now) -> Played:
  """What waits goes on, beside new tasks, until a batch of groups is finished.

  Groups with a token that is too old are given up. No task is played twice at a
  time.
  """
  p, world, plan = run.config.prompts, run.world, _plan(run, now)
  old = {
    part.issue
    for part in kept.unfinished
    if _age(part, now.version) > p.max_age
  }
  parts = [part for part in kept.unfinished if part.issue not in old]
  chosen = kept.chosen
  while len({part.issue for part in parts}) + p.batch <= p.in_flight:
    tasks, chosen = run.curriculum.choose(chosen, now.step)
    first = max((part.issue for part in parts), default=-1) + 1
    flying = {part.live.task.id for part in parts}
    tasks = [task for task in tasks if task.id not in flying]
    if not tasks:
      break
    parts += partial.begin(world.env, world.chat, tasks, plan, first)
  if not parts:
    return Played(None, kept._replace(chosen=chosen, unfinished=()), {})
  before = sum(sum(part.live.mask) for part in parts)
  parts = partial.advance(
    parts,
    world.engine,
    world.env,
    world.chat,
    plan,
    budget=run.config.rollout.budget,
    enough=max(p.batch - len(kept.surplus), 1),
  )
  over = partial.finished(parts)
  episodes = [part.live.episode() for group in over for part in group]
  batch.check_failed(episodes, run.config.rollout.max_failed)
  batch.check_versions(episodes, now.version, p.max_age)
  done = {group[0].issue for group in over}
  rest = tuple(part for part in parts if part.issue not in done)
  facts = {
    'partial/finished': len(over),
    'partial/unfinished': len({part.issue for part in rest}),
    'partial/given_up': len(old),
    'partial/tokens': sum(sum(part.live.mask) for part in parts) - before,
    'partial/age': _token_age(episodes, now.version),
  }
  return Played(episodes, kept._replace(chosen=chosen, unfinished=rest), facts)


def _age(part: partial.Part, version: int) -> int:
  known = partial.oldest(part)
  return 0 if known is None else version - known


def _token_age(episodes: list[episode.Episode], version: int) -> float:
  """Mean age of sampled tokens, in versions."""
  ages: list[Any] = [
    version - one.extras['rollout_version'][one.mask] for one in episodes
  ]
  flat = np.concatenate(ages) if ages else np.zeros(1)
  return float(np.mean(flat)) if flat.size else 0.0


def oldest(group: episode.Group, version: int) -> int:
  """The version of a group's oldest token, of those that a sampler chose."""
  known = [
    one.extras['rollout_version']
    for one in group.episodes
    if 'rollout_version' in one.extras
  ]
  told = np.concatenate([np.full(1, version), *known])
  return int(np.min(told[told >= 0], initial=version))
