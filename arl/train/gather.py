"""What a step trains on: tasks chosen, rolled out, selected and replayed.

A step has rounds. In each the curriculum chooses tasks, the strategy rolls them
out and the selection keeps what is worth an update, until a batch of groups is
full or the rounds are used up (dynamic sampling, DAPO, arXiv:2503.14476, 3.2).
What is left over waits for a later step as long as config.prompts.max_age
allows, and a replay may mix in what was trained on before. All that is carried
from step to step is `carried.Kept`, which a checkpoint holds.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import ml_collections
import numpy as np

from arl import episode, names
from arl.prompts import collapse, curricula, replay
from arl.rewards import shaping
from arl.rollout import engine as engine_lib
from arl.train import (
  batch,
  build,
  carried,
  choosing,
  crossed,
  pipeline,
  playing,
  processes,
  weighting,
)

COLLAPSED = (
  'stopped: for 10 steps the rewards within groups have differed by less than'
  ' config.prompts.least_spread of what they did at the beginning.'
)
_REPLAYING = 1  # beside the seed and the step: what randomness is for


class Gathered(NamedTuple):
  """What a step gathered.

  Attributes:
    episodes: all that were rolled out.
    fresh: the groups of those with a grade, as the environment paid them.
    groups: what to train on.
    added: what reward terms added, by name.
    facts: metrics of the gathering.
  """

  episodes: list[episode.Episode]
  fresh: list[episode.Group]
  groups: list[episode.Group]
  added: dict[str, float]
  facts: dict[str, float]


class Gather(NamedTuple):
  """How a run gathers.

  Attributes:
    begin: () -> Kept, before the first step.
    collect: (kept, step, version of the sampler, knobs) -> (Gathered, Kept).
    learn: (kept, Gathered, what is told of the policy) -> (Kept, metrics).
    moved: whether `learn` reads how far the policy moved.
    handed: (version) -> None; is told when the sampler holds other weights.
    close: () -> None; ends rollouts that go on in the background.
  """

  begin: Callable[[], carried.Kept]
  collect: Callable[
    [carried.Kept, int, int, Mapping[str, float]], tuple[Gathered, carried.Kept]
  ]
  learn: Callable[
    [carried.Kept, Gathered, curricula.Told],
    tuple[carried.Kept, dict[str, float]],
  ]
  moved: bool
  handed: Callable[[int], None]
  close: Callable[[], None]


def make(
  config: ml_collections.ConfigDict,
  world: build.World,
  strategy: Callable,
  sampling: engine_lib.Sampling,
) -> Gather:
  """How a run with this config gathers."""
  curriculum = choosing.curriculum(config, world.env)
  again = choosing.replay_of(config)
  run = playing.Run(config, world, strategy, sampling, curriculum)
  player = (pipeline if config.rollout.ahead else playing).player(run)
  oldest = max(config.prompts.max_age, config.rollout.ahead)
  limits = {
    'context': config.rollout.context,
    'temperature': config.rollout.temperature,
  }
  watch = functools.partial(collapse.watch, least=config.prompts.least_spread)

  def begin():
    return carried.Kept(curriculum.begin())

  def collect(kept, step, version, knobs):
    got, ready, kept = _rounds(config, player.play, kept, step, version, knobs)
    now = replay.Now(
      version=version,
      batch=config.prompts.batch,
      max_age=config.prompts.max_age,
      progress=step / config.steps,
      rng=np.random.default_rng((config.seed, step, _REPLAYING)),
      score=processes.of_first(
        functools.partial(_score, world.engine, limits['temperature'])
      ),
    )
    drawn = again.draw(kept.buffer, ready, now)
    groups = distinct([item.group for item in drawn.items])
    if weighting.wanted(config):
      kept_share = min(len(ready) / max(len(got.fresh), 1), 1)
      scale = kept_share**config.prompts.scale
      groups = weighting.apply(groups, [x * scale for x in drawn.weights])
    facts = {f'replay/{name}': x for name, x in drawn.facts.items()}
    every = config.eval.crossed
    if every and (step + 1) % every == 0:
      measure = processes.of_first(crossed.measure)
      facts |= measure(world.engine, got.fresh, **limits)
    for group in groups:
      batch.check_versions(group.episodes, version, oldest)
    got = got._replace(groups=groups, facts=got.facts | facts)
    return got, kept._replace(buffer=drawn.buffer)

  def learn(kept, got, told):
    chosen, facts = curriculum.observe(kept.chosen, got.fresh, told)
    spreads, seen = watch(kept.spreads, got.fresh)
    facts = {f'prompts/{name}': x for name, x in (facts | seen).items()}
    kept = player.keep(kept._replace(chosen=chosen, spreads=spreads))
    return kept, facts

  return Gather(
    begin, collect, learn, curriculum.moved, player.handed, player.close
  )


def _score(engine, temperature, episodes):
  rows = [one.tokens.tolist() for one in episodes]
  return engine.score(rows, temperature)


def _rounds(
  config: ml_collections.ConfigDict, play, kept, step, version, knobs
):
  """Rounds until a batch is full: Gathered, the items of a batch, Kept."""
  p = config.prompts
  terms = build.terms_of(config.reward)
  select = names.resolve(p.select, 'arl.prompts')
  ready = replay.living(kept.surplus, version, max_age=p.max_age, max_uses=1)
  old = len(kept.surplus) - len(ready)
  episodes: list[episode.Episode] = []
  fresh: list[episode.Group] = []
  facts: dict[str, float] = {}
  parts, count = [], 0
  while count < p.rounds and (not count or len(ready) < p.batch):
    now = playing.Now(step, version, count, knobs)
    made, kept, told = play(kept, now)
    if made is None:
      break
    graded = episode.groups([e for e in made if episode.graded(e)])
    groups, added = shaping.add(graded, terms, cap=config.reward.cap)
    ready += [
      replay.Item(group, playing.oldest(group, version))
      for group in select(groups)
    ]
    episodes, fresh, count = [*episodes, *made], [*fresh, *graded], count + 1
    facts |= told
    parts.append((added, sum(episode.graded(e) for e in made)))
  surplus: tuple[replay.Item, ...] = ()
  if p.rounds > 1 or config.rollout.budget:
    ready, surplus = ready[: p.batch], tuple(ready[p.batch :])
    facts |= {
      'prompts/rounds': count,
      'prompts/exhausted': float(len(ready) < p.batch),
      'prompts/surplus': len(surplus),
      'prompts/too_old': old,
      'prompts/age': _mean([version - item.version for item in ready]),
    }
  kept = kept._replace(surplus=surplus if p.max_age else ())
  return Gathered(episodes, fresh, [], _averaged(parts), facts), ready, kept


def _mean(values: Sequence[float]) -> float:
  return float(np.mean(values)) if values else 0.0


def _averaged(parts: Sequence[tuple[dict, int]]) -> dict[str, float]:
  """Means of rounds as one mean, each weighed by its episodes."""
  if len(parts) == 1:
    return parts[0][0]
  told = [(added, n) for added, n in parts if added]
  total = sum(n for _, n in told)
  names_ = told[0][0] if told else {}
  return {k: sum(added[k] * n for added, n in told) / total for k in names_}


def distinct(groups: Sequence[episode.Group]) -> list[episode.Group]:
  """The groups, those of a task that came before under an id of their own.

  Rollouts of one task by different policies, or at different times, are not
  compared with each other.
  """
  made, count = [], dict[str, int]()
  for group in groups:
    id = group.task.id
    count[id] = count.get(id, -1) + 1
    if count[id]:
      task = group.task._replace(id=f'{id}/again/{count[id]}')
      own = [one._replace(task=task) for one in group.episodes]
      group = episode.Group(task, own)
    made.append(group)
  return made


def collapsed(learnt: dict[str, float]) -> bool:
  """Whether what `learn` told ends the run."""
  return bool(learnt.get('prompts/collapsed', 0))
