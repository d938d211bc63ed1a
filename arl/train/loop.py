"""The training loop. Read this first, from top to bottom.

A step samples groups of episodes from the current policy, scores and credits
them, takes a few updates and hands the new parameters to the engine. All
randomness is folded from (seed, step), so what a step does depends on nothing
but the state it starts from, and a resumed run is the run.
"""

import collections
import contextlib
import functools
import pathlib
import time
from typing import Any

import jax
import ml_collections
import numpy as np

from arl.evaluate import behavior, summary
from arl.rollout import costs
from arl.train import (
  batch,
  build,
  carried,
  checkpoint,
  clock,
  engines,
  evaluation,
  export,
  fills,
  flops,
  gather,
  interrupt,
  metrics,
  outcome,
  processes,
  progress,
  promise,
  settings,
  state,
  telling,
  tracing,
  tutors,
  watch,
)


def train(
  config: ml_collections.ConfigDict, workdir: str, profile: int = 0
) -> state.TrainState:
  """Trains a policy and writes everything about it to `workdir`.

  Args:
    config: see `arl.train.settings`; experiments/ has examples.
    workdir: of this run. One that holds checkpoints of the same settings is
      resumed from the newest.
    profile: steps to trace, see `tracing`.

  Returns:
    The state at the end, or where Ctrl-C stopped it.

  Raises:
    ValueError, TypeError: a setting that cannot work, before any compute.
    RuntimeError: the environment fails too often.
    FloatingPointError: too many non-finite updates in a row.
  """
  with contextlib.ExitStack() as opened:
    return _train(config, workdir, profile, opened)


def _train(config, workdir, profile, opened) -> state.TrainState:
  # --- Set up -----------------------------------------------------------------
  method = build.check(config)
  folder = pathlib.Path(workdir).absolute()
  desk = opened.enter_context(processes.desk(folder))
  timer = clock.Clock()
  world = clock.timed(build.world(config), timer)
  opened.callback(engines.close, world.engine)
  learner = build.learner(config, method, world.loaded)
  strategy, tutor = tutors.make(config, world)
  strategy = processes.shared(strategy)
  temperature, per_batch = config.rollout.temperature, config.updates.per_batch
  watched = evaluation.held_out(world, 0, config.eval.tasks)
  final = evaluation.held_out(world, config.eval.tasks, config.eval.final_tasks)
  now = learner.state
  saved = checkpoint.Checkpoints(folder, keep=config.checkpoint.keep)
  knobs = build.knobs_of(config)
  sampling = evaluation.training(temperature, learner)
  gathering = gather.make(config, world, strategy, sampling)
  tell = processes.of_first(telling.make(config, method, world))

  def hand_over(params: Any, version: int) -> None:
    world.engine.set_params(export.policy_params(params), version)
    gathering.handed(version)
    tutors.follow(tutor, now, version)

  # --- Resume, or look at the policy before training --------------------------
  origin = checkpoint.fingerprint(world.loaded.params)
  agree = functools.partial(settings.check_resumes, config, origin)
  found = saved.resume(now, agree)
  if found:
    meta, now = found
    start, kept = meta['step'], carried.from_json(meta['gathered'], world.env)
    hand_over(now.params, start)
    print(f'resumed {folder} after step {start}')
  else:
    start, kept = 0, gathering.begin()
    meta = outcome.begin(config, origin)
    meta['before'] = evaluation.evaluate(
      world, final, temperature, (evaluation.FINAL,)
    )
    meta['knobs'] = {name: knob.init for name, knob in knobs.items()}
    meta['shown'] = outcome.show(
      world, learner, tell, now.params, config, meta['knobs'], strategy
    )
  metrics.truncate(desk, start)
  doctor = watch.make(config, desk, start, world.chat)
  most = flops.peak() * learner.mesh.size if profile else 0.0
  born = time.monotonic() - meta['wall']

  def save(step: int, row: dict[str, float]) -> None:
    meta['wall'] = time.monotonic() - born
    meta['gathered'] = carried.to_json(kept)
    meta['metrics'] = {name: float(value) for name, value in row.items()}
    saved.save(step, now, meta)

  # --- Train ------------------------------------------------------------------
  with contextlib.ExitStack() as stack:
    stopped = stack.enter_context(interrupt.requested())
    stack.enter_context(contextlib.closing(saved))
    stack.enter_context(contextlib.closing(gathering))
    log = stack.enter_context(contextlib.closing(metrics.open_log(desk)))
    report = stack.enter_context(
      progress.track(config.steps, config.method.name, start)
    )
    trace = stack.enter_context(tracing.track(desk, start, profile))
    for step in range(start, config.steps):
      trace(step)
      timer.read()
      began = time.monotonic()

      # Gather what to train on: choose tasks, roll out, select.
      version = max(step - config.rollout.lag, 0)
      if now.behind:
        hand_over(state.acting(now), version)
      got, kept = gathering.collect(kept, step, version, meta['knobs'])
      rolled_out = time.monotonic()
      now = state.begin_batch(now)

      # Score, credit, update.
      seen, change = collections.defaultdict(list), 0.0
      parts, data = [got.episodes], None
      if got.groups:
        parts = batch.updates(got.groups, per_batch, tell)
        with timer.during(clock.SCORING):
          data = batch.make(
            learner,
            now.params,
            parts,
            width=config.rollout.context,
            max_turns=config.rollout.max_turns,
            from_loop=functools.partial(
              fills.from_loop,
              seed=config.seed,
              step=step,
              steps=config.steps,
              knobs=meta['knobs'],
            ),
          )
          jax.block_until_ready((data.columns, data.credits))
        batch.check_origin(config.method.name, data, learner.method.needs)
        filled = [index for index, part in enumerate(parts) if part]
        with timer.during(clock.UPDATE):
          for index in filled * config.updates.epochs:
            part = batch.update(data, index, learner.rows)
            now, facts = learner.step(now, *part, **learner.taught)
            for name, value in facts.items():
              seen[name].append(value)
          jax.block_until_ready(now)
        seen.update({name: [value] for name, value in data.metrics.items()})
        if gathering.moved:
          change = batch.moved(learner, now.params, data)
      doctor.keep(step + 1, parts, data)
      now = state.end_batch(now, config.model.average)
      hand_over(now.params, step + 1)
      about = promise.told(
        learner, now.params, world.chat, config.rollout.context, change
      )
      kept, learnt = gathering.learn(kept, got, about)

      # Watch.
      row = {name: np.mean(jax.device_get(v)) for name, v in seen.items()}
      row |= timer.read()
      if data:
        row |= flops.rates(
          world.loaded.sizes,
          data.columns,
          config.updates.epochs,
          row['share/update'] * row['time/step'],
          most,
          learner.trains,
        )
      ended = time.monotonic()
      row |= outcome.training_metrics(
        summary.success(got.episodes),
        groups_used=len(got.groups) / config.prompts.batch,
        rollout=rolled_out - began,
        update=ended - rolled_out,
        updates=int(now.updates),
      )
      row |= {f'reward/{name}': value for name, value in got.added.items()}
      told = summary.judged(got.episodes)
      row |= {f'environment/{name}': value for name, value in told.items()}
      row |= behavior.measure(got.episodes) | got.facts | learnt
      row |= costs.of(strategy, got.episodes)
      for name, knob in knobs.items():
        row[f'knobs/{name}'] = meta['knobs'][name]
        meta['knobs'][name] = knob.update(
          row[f'knobs/{name}'], row, int(row['train/graded'])
        )
      meta['knobs'] = processes.everybody(meta['knobs'])[0]  # one may read time
      collapsed = gather.collapsed(learnt)
      last = step + 1 == config.steps or collapsed
      if last or (step + 1) % config.eval.every == 0:
        results = evaluation.evaluate(
          world, watched, temperature, (evaluation.WATCHING,)
        )
        row |= evaluation.flat(results)
        if outcome.improves(meta, results, step + 1):
          export.save(
            folder / 'best', now.params, world.loaded.sizes, world.tokenizer
          )
      log.write(step + 1, row)
      report(step + 1, outcome.headline(row))
      doctor.look(step + 1, row, report.note)
      outcome.check_finite(now, row, step + 1, config.updates.max_nonfinite)

      # Save; leave if asked to.
      leaving = processes.anybody(stopped()) and not last
      if last or leaving or (step + 1) % config.checkpoint.every == 0:
        save(step + 1, row)
      if leaving:
        report.note(
          f'stopped after step {step + 1}; its checkpoint is in {folder}. To go'
          ' on, run the same command again.'
        )
        return now
      if collapsed:
        report.note(gather.COLLAPSED)
        break

  # --- Say what became of it --------------------------------------------------
  meta['wall'] = time.monotonic() - born
  export.save(folder / 'final', now.params, world.loaded.sizes, world.tokenizer)
  after = evaluation.evaluate(world, final, temperature, (evaluation.FINAL,))
  shown = outcome.show(
    world, learner, tell, now.params, config, meta['knobs'], strategy
  )
  compiled = outcome.compiles(world, learner)
  outcome.write(desk, config, meta, after, shown, compiled)
  return now
