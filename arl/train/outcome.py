"""What a run says of itself: live metrics, results.json and the report."""

import functools
import json
import os
import pathlib
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

import jax
import ml_collections

from arl import episode
from arl.report import curves, page
from arl.rewards import shaping
from arl.train import (
  batch,
  build,
  evaluation,
  fills,
  metrics,
  settings,
  state,
  turning,
  watch,
)

_SHOWN = 4  # tasks whose transcripts are kept
_PACKAGES = ('arl', 'jax', 'jaxlib', 'flax', 'optax', 'transformers', 'numpy')


def begin(config: ml_collections.ConfigDict, model: str) -> dict[str, Any]:
  """The facts of a run that has not started; `model` is a fingerprint."""
  return {
    'config': settings.to_json(config),
    'model': model,
    'wall': 0.0,
    'best': {'step': 0, 'success': -1.0},
    'versions': versions(),
  }


def versions() -> dict[str, str]:
  """Python's version and those of the packages that decide a result."""
  found = {'python': platform.python_version()}
  for package in _PACKAGES:
    found[package] = metadata.version(package)
  return found


def training_metrics(
  success: dict[str, float],
  *,
  groups_used: float,
  rollout: float,
  update: float,
  updates: int,
) -> dict[str, float]:
  """The metrics of a training step besides those of its updates.

  Args:
    success: the summary of the step's episodes.
    groups_used: share of the groups that were trained on.
    rollout: seconds of sampling.
    update: seconds of scoring, credit and updates.
    updates: applied since the run began.
  """
  row = {f'train/{name}': value for name, value in success.items()}
  sampled = success['tokens'] * success['graded']
  return {
    **row,
    'train/groups_used': groups_used,
    'train/updates': updates,
    'time/rollout': rollout,
    'time/update': update,
    'speed/tokens_per_second': sampled / (rollout + update),
  }


def headline(row: dict[str, float]) -> dict[str, float]:
  """The few metrics that a progress line shows."""
  short = {
    'success': 'train/success',
    'held-out': 'eval/sampled',
    'kl': 'policy/kl',
    'entropy': 'train/entropy',
    'tokens/s': 'speed/tokens_per_second',
  }
  return {name: row[key] for name, key in short.items() if key in row}


def improves(meta: dict, results: dict[str, dict], step: int) -> bool:
  """Whether this is the best sampled held-out success; if so, notes it."""
  success = results['sampled']['success']
  if not success > meta['best']['success']:
    return False
  meta['best'] = {'step': step, 'success': success}
  return True


def check_finite(
  now: state.TrainState, row: dict[str, float], step: int, most: int
) -> None:
  """Stops a run whose updates stay non-finite.

  Raises:
    FloatingPointError: `most` updates in a row were skipped.
  """
  skipped = int(now.skipped)
  if skipped >= most:
    raise FloatingPointError(
      f'step {step}: the last {skipped} updates had a non-finite loss, gradient'
      ' or change of the parameters and were skipped (loss'
      f' {row.get("loss/total")}, gradient norm'
      f' {row.get("train/grad_norm")}); parameters are as before them. Look at'
      ' metrics.jsonl; lower the learning rate or the clip bounds.'
    )


def show(
  world: build.World,
  learner: build.Learner,
  tell: Callable,
  params: Any,
  config: ml_collections.ConfigDict,
  knobs: Mapping[str, float],
  strategy: Callable,
) -> list[page.Transcript]:
  """Transcripts of a few held-out tasks under the engine's current policy.

  Each task is sampled as often as in training, so that the episode shown has
  the advantage that training would give it, and rolled out by the strategy of
  training where the method reads what that gives; there are as many as the rows
  of an update hold. A task none of whose episodes has a grade is left out.
  """
  graded = play(world, learner, config, knobs, strategy)
  made = credited(world, learner, tell, params, config, knobs, graded)
  found: dict[str, page.Transcript] = {}
  for one, shown in zip(graded, made):
    found.setdefault(one.task.id, shown)
  return list(found.values())


def play(
  world: build.World,
  learner: build.Learner,
  config: ml_collections.ConfigDict,
  knobs: Mapping[str, float],
  strategy: Callable,
) -> list[episode.Episode]:
  """The graded episodes of the tasks that are shown, see `show`."""
  samples, block = config.prompts.samples, learner.block or learner.rows
  room = learner.rows // block * (block // samples)
  tasks = evaluation.held_out(world, 0, min(_SHOWN, room))
  gives: frozenset[str] = getattr(strategy, 'gives', frozenset())
  told = {name: knobs[name] for name in turning.read_by(strategy)}
  reads = learner.method.needs & gives
  heat = knobs.get(turning.TEMPERATURE, config.rollout.temperature)
  episodes = evaluation.run(
    world,
    tasks,
    evaluation.training(heat, learner),
    (evaluation.SHOWING,),
    samples,
    functools.partial(strategy, **told) if reads else None,
  )
  if turning.TEMPERATURE in knobs:
    episodes = [turning.stamped(one, heat) for one in episodes]
  return [e for e in episodes if episode.graded(e)]


def credited(
  world: build.World,
  learner: build.Learner,
  tell: Callable,
  params: Any,
  config: ml_collections.ConfigDict,
  knobs: Mapping[str, float],
  graded: Sequence[episode.Episode],
) -> list[page.Transcript]:
  """Episodes, whole groups of them, with what training would credit them."""
  groups, _ = shaping.add(
    episode.groups(graded),
    build.terms_of(config.reward),
    cap=config.reward.cap,
  )
  shown = batch.updates(groups, 1, tell)
  empty: list[list] = [[] for _ in range(config.updates.per_batch - 1)]
  data = batch.make(
    learner,
    params,
    [*shown, *empty],
    width=config.rollout.context,
    max_turns=config.rollout.max_turns,
    from_loop=functools.partial(
      fills.from_loop, seed=config.seed, step=0, steps=1, knobs=knobs
    ),
  )
  return [
    page.transcript(
      one.task.prompt,
      one,
      batch.advantage_of(data, i, len(one.tokens)),
      lambda token: world.chat.pieces([token])[0],
    )
    for i, one in enumerate(graded)
  ]


def compiles(world: build.World, learner: build.Learner) -> dict[str, int]:
  """How many times each jitted function of the run was compiled."""
  functions: dict[str, Any] = {
    'score': learner.score,
    'credit': learner.credit,
    'step': learner.step,
  }
  counts = {name: f._cache_size() for name, f in functions.items()}
  return counts | world.engine.compiles()


def _success(result: dict[str, float]) -> dict[str, float]:
  names = ('success', 'success_low', 'success_high', 'graded', 'failed')
  return {name: result[name] for name in names}


def write(
  folder: pathlib.Path,
  config: ml_collections.ConfigDict,
  meta: dict[str, Any],
  after: dict[str, dict],
  shown: list[page.Transcript],
  compiled: dict[str, int],
) -> None:
  """Writes curves.png, report.html and, when those are there, results.json."""
  results = {
    'method': config.method.name,
    'before': {k: _success(v) for k, v in meta['before'].items()},
    'after': {k: _success(v) for k, v in after.items()},
    'best': meta['best'],
    'wall_seconds': round(meta['wall'], 1),
    'steps': config.steps,
    'seed': config.seed,
    'config_hash': settings.digest(config),
    'versions': meta['versions'],
    'device': jax.devices()[0].device_kind,
    'compiles': compiled,
  }
  curves.curves(metrics.read(folder), folder / 'curves.png')
  html = page.page(
    title=f'{config.method.name} on {config.env.name}',
    scores=[
      page.Score(name, _estimate(meta['before'][name]), _estimate(after[name]))
      for name in after
    ],
    facts=_facts(results),
    curves=(folder / 'curves.png').read_bytes(),
    config=settings.to_json(config),
    pairs=_pairs(_transcripts(meta['shown']), shown),
    warnings=watch.warnings(folder),
  )
  (folder / 'report.html').write_text(html, encoding='utf-8')
  draft = folder / 'results.partial'
  draft.write_text(json.dumps(results, indent=2, allow_nan=False) + '\n')
  os.replace(draft, folder / 'results.json')


def _estimate(result: dict[str, float]) -> page.Estimate:
  return page.Estimate(
    result['success'],
    result['success_low'],
    result['success_high'],
    int(result['graded']),
  )


def _facts(results: dict[str, Any]) -> dict[str, str]:
  names = ('wall_seconds', 'steps', 'seed', 'config_hash', 'device')
  facts = {name.replace('_', ' '): str(results[name]) for name in names}
  return facts | {'versions': ', '.join(
    f'{name} {version}' for name, version in results['versions'].items()
  )}  # fmt: skip


def _pairs(
  before: list[page.Transcript], after: list[page.Transcript]
) -> list[tuple[page.Transcript, page.Transcript]]:
  """Those of the same task; one shown only once is left out."""
  later = {each.title: each for each in after}
  return [(each, later[each.title]) for each in before if each.title in later]


def _transcripts(saved: list) -> list[page.Transcript]:
  """Transcripts again, from tuples that went through JSON."""
  return [
    page.Transcript(title, [page.Piece(*p) for p in pieces], reward, status)
    for title, pieces, reward, status in saved
  ]
