"""Which prompts are chosen, which groups are kept, and what is replayed.

  python -m experiments.studies.choosing [--quick] [--seeds=N]

No model: pools of prompts whose chances of success are known, a bandit over
prompts, a replay whose process is killed at random, and a clock for episodes in
parts. Prints a JSON object a
line and rewrites experiments/results/choosing.md.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl.prompts import replay
from arl.train import carried
from experiments.studies import interrupted, prompt_pool, runs, templates

_AGE, _USES = 3, 2


class Line(NamedTuple):
  """A number of the study: of what, by what, one value a seed."""

  part: str
  who: str
  name: str
  unit: str
  values: list[float]


def _told(part, who, units, each) -> Iterator[Line]:
  """Lines of what was measured for each seed."""
  for name, unit in units.items():
    yield Line(part, who, name, unit, [one[name] for one in each])


def curricula_lines(seeds: Sequence[int], quick: bool) -> Iterator[Line]:
  """Curricula while all prompts drift."""
  steps = 40 if quick else 200
  units = {
    'mixed': 'share',
    'error': 'probability',
    'error of the chosen': 'probability',
    'rollouts': 'rollouts',
  }
  for who, make in {**prompt_pool.CURRICULA, 'oracle': None}.items():
    each = [prompt_pool.drifting(make, steps, seed) for seed in seeds]
    yield from _told('curriculum', who, units, each)


def phase_lines(seeds: Sequence[int], quick: bool) -> Iterator[Line]:
  """WebRL's phases: are variations of failures of the right difficulty?"""
  units = dict.fromkeys(('varied', 'pool', 'alone'), 'probability')
  for who, critic in (('judged by rollouts', False), ('by a critic', True)):
    steps = 40 if quick else 150
    each = [prompt_pool.growing(steps, seed, critic=critic) for seed in seeds]
    yield from _told('WebRL', who, {**units, 'inside': 'share'}, each)


def refill_lines(seeds: Sequence[int], quick: bool) -> Iterator[Line]:
  """Dynamic sampling, and curricula in its place, on prompts that learn."""
  units = {
    'steps': 'updates',
    'rollouts': 'rollouts',
    'without spread': 'share',
  }
  ways = {
    'one round': ('uniform', 1),
    'dynamic sampling': ('uniform', 10),
    'KGPS, one round': ('KGPS', 1),
    'KGPS, dynamic sampling': ('KGPS', 10),
  }
  target = 0.35 if quick else 0.6
  for who, (name, rounds) in ways.items():
    make = prompt_pool.CURRICULA[name]
    each = [
      prompt_pool.learning(make, seed, rounds=rounds, target=target)
      for seed in seeds
    ]
    yield from _told('refill', who, units, each)


def template_lines(seeds: Sequence[int], quick: bool) -> Iterator[Line]:
  """Whether answers still depend on prompts, with and without the filter."""
  steps = 50 if quick else 400
  units = dict.fromkeys(
    ('entropy', 'conditional entropy', 'information', 'seen'), 'nats'
  ) | {'success': 'probability'}
  starts = []
  for who in templates.FILTERS:
    pairs = [templates.train(who, seed, steps=steps) for seed in seeds]
    starts = [first for first, _ in pairs]
    yield from _told('template', who, units, [last for _, last in pairs])
  yield from _told('template', 'before training', units, starts)


def history(seed: int, steps: int, chance: float) -> dict[str, Any]:
  """A replay of `steps` steps whose process dies with a chance in each.

  It starts again from its last checkpoint, one every 3 steps, which is JSON.
  """
  ring = replay.mixture(size=60, max_uses=_USES)
  crash = np.random.default_rng((seed, 1))
  kept = carried.Kept({})
  saved, trained, step, crashes = (
    (0, json.dumps(carried.to_json(kept))),
    {},
    0,
    0,
  )
  while step < steps:
    if crash.random() < chance:
      step, text = saved
      kept, crashes = (
        carried.from_json(json.loads(text), prompt_pool.pool(0).env),
        crashes + 1,
      )
      continue
    rng = np.random.default_rng((seed, 2, step))
    names = [prompt_pool.pool(0).task(step * 8 + i) for i in range(8)]
    logits = rng.normal(0, 2, 8 * (step + 1))
    fresh, _, _ = prompt_pool.groups(names, logits, rng)
    now = replay.Now(step, 8, _AGE, step / steps, rng, list)
    items = [replay.Item(group, step) for group in fresh]
    drawn = ring.draw(kept.buffer, items, now)
    kept = kept._replace(buffer=drawn.buffer)
    trained[step] = [(i.group.task.id, step - i.version) for i in drawn.items]
    step += 1
    if step % 3 == 0:
      saved = step, json.dumps(carried.to_json(kept))
  whole = [one for at in range(steps) for one in trained[at]]
  ids = [id for id, _ in whole]
  ages = np.bincount([age for _, age in whole], minlength=_AGE + 1) / len(whole)
  made = {f'age {age}': float(share) for age, share in enumerate(ages)}
  return {
    **made,
    'crashes': float(crashes),
    'most uses': float(max(map(ids.count, set(ids)))),
    'never trained on': 1 - len(set(ids)) / (8 * steps),
    'trained': whole,
  }


def replay_lines(seeds: Sequence[int], quick: bool) -> Iterator[Line]:
  """Ages and uses in a replay, and what crashes change."""
  steps = 12 if quick else 60
  calm = [history(seed, steps, 0.0) for seed in seeds]
  torn = [history(seed, steps, 0.2) for seed in seeds]
  units = {f'age {age}': 'share' for age in range(_AGE + 1)}
  units |= {'most uses': 'uses', 'never trained on': 'share'}
  yield from _told('replay', 'undisturbed', units, calm)
  yield from _told('replay', 'killed at random', units, torn)
  differ = [float(a['trained'] != b['trained']) for a, b in zip(calm, torn)]
  unit = 'share of histories'
  yield Line('replay', 'killed at random', 'differ', unit, differ)
  crashes = [one['crashes'] for one in torn]
  yield Line('replay', 'killed at random', 'crashes', 'crashes', crashes)


def interrupted_lines(seeds: Sequence[int], quick: bool) -> Iterator[Line]:
  """Episodes in parts, by a clock."""
  units = {
    'idle': 'share of ticks',
    'ticks a group': 'ticks',
    'tokens a group': 'tokens',
    'parts': 'steps',
    'given up': 'share of groups',
    'lost or twice': 'share of runs',
  }
  for who, way in interrupted.WAYS.items():
    each = [way(seed, 6 if quick else 40) for seed in seeds]
    yield from _told('in parts', who, units, each)


def lines(seeds: Sequence[int], quick: bool) -> Iterator[Line]:
  """Everything that this study measures."""
  parts = (
    curricula_lines,
    phase_lines,
    refill_lines,
    template_lines,
    replay_lines,
    interrupted_lines,
  )
  for part in parts:
    yield from part(seeds, quick)


def main(argv: list[str]) -> None:
  del argv
  seeds, body = runs.seeds(), []
  for line in lines(seeds, runs.quick()):
    name = f'choosing/{line.part}/{line.who}/{line.name}'
    value, interval = runs.mean(line.values)
    if np.isnan(value):
      runs.line(name, None, line.unit, '', seeds, None)
      cell = 'not reached'
    else:
      runs.line(name, value, line.unit, '', seeds, interval)
      cell = runs.spread(value, interval)
    body.append([line.part, line.who, line.name, cell, line.unit])
  if not runs.quick():
    header = ['part', 'who', 'what', 'mean (95 % interval)', 'unit']
    runs.write_table(runs.RESULTS / 'choosing.md', header, body, seeds)


if __name__ == '__main__':
  runs.start(main)
