"""Held-out success, greedy and sampled."""

from collections.abc import Callable, Sequence

from arl import episode
from arl.envs import base
from arl.evaluate import summary
from arl.rollout import engine as engine_lib
from arl.rollout import strategies
from arl.train import build

# Leading numbers of the paths of randomness: who samples. Further rounds of a
# training step count on from AGAIN.
TRAINING, WATCHING, FINAL, SHOWING, AGAIN = range(5)


def variants(temperature: float) -> dict[str, engine_lib.Sampling]:
  """The ways a policy is evaluated, by name."""
  return {
    'sampled': engine_lib.Sampling(temperature=temperature),
    'greedy': engine_lib.Sampling(temperature=0),
  }


def training(temperature: float, learner: build.Learner) -> engine_lib.Sampling:
  """How training samples: with what the method and the updates read."""
  return variants(temperature)['sampled']._replace(
    entropy='rollout_entropy' in learner.method.needs,
    experts=learner.replay is not None,
  )


def training_path(step: int, round_: int) -> tuple[int, int]:
  """The randomness of a round of a training step; the first is round 0."""
  return (AGAIN + round_ - 1 if round_ else TRAINING, step)


def held_out(world: build.World, first: int, count: int) -> list[episode.Task]:
  """Tasks that training never sees, by index."""
  return [world.env.task(base.HELD_OUT, first + i) for i in range(count)]


def plan(
  world: build.World,
  samples: int,
  sampling: engine_lib.Sampling,
  path: tuple[int, ...],
) -> strategies.Plan:
  """How the world's tasks are rolled out."""
  ends = sampling._replace(stop_text=world.stop_text)
  return strategies.Plan(samples, ends, world.limits, path)


def run(
  world: build.World,
  tasks: Sequence[episode.Task],
  sampling: engine_lib.Sampling,
  path: tuple[int, ...],
  samples: int = 1,
  strategy: Callable | None = None,
) -> list[episode.Episode]:
  """Episodes of the engine's current policy on the tasks, by the world's
  strategy or one that adds to its episodes.

  Whatever the step, `path` stands for the same randomness. Its 0 stands where
  the step is in training, so that both share one compiled engine.
  """
  return (strategy or world.strategy)(
    world.engine,
    world.env,
    world.chat,
    tasks,
    plan(world, samples, sampling, (*path, 0)),
  )


def evaluate(
  world: build.World,
  tasks: Sequence[episode.Task],
  temperature: float,
  path: tuple[int, ...],
) -> dict[str, dict[str, float]]:
  """The summary of each variant on the tasks; nothing is trained on them.

  Raises:
    RuntimeError: none of the episodes has a grade.
  """
  results = {}
  for name, sampling in variants(temperature).items():
    episodes = run(world, tasks, sampling, path)
    results[name] = summary.success(episodes)
    if not results[name]['graded']:
      raise RuntimeError(
        f'evaluation: none of the {len(episodes)} episodes has a grade; the'
        f' first, of task {episodes[0].task.id!r}: {episodes[0].status}:'
        f' {episodes[0].error}'
      )
  return results


def flat(results: dict[str, dict[str, float]]) -> dict[str, float]:
  """Results as metrics: eval/sampled, eval/sampled_low, eval/sampled_high."""
  return {
    f'eval/{name}{end}': result[f'success{end}']
    for name, result in results.items()
    for end in ('', '_low', '_high')
  }
