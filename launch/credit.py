r"""What two methods credit: python -m launch.credit --config=A --against=B.

  python -m launch.credit \
    --config=experiments/quickstart.py:method=grpo \
    --against=experiments/quickstart.py:method=gigpo --output=credit.html

Plays a few held-out tasks with the model, the environment and the strategy of
--config, credits the same episodes by the methods of both configs, and writes a
page that shows them side by side, token by token: of each task an episode that
succeeded and one that did not, where there are both.
"""

import pathlib
from collections.abc import Sequence

import ml_collections
from absl import app, flags

from arl import episode
from arl.evaluate import summary
from arl.report import page
from arl.train import build, fills, outcome, telling, tutors
from launch import start


def compare(
  config: ml_collections.ConfigDict, against: ml_collections.ConfigDict
) -> str:
  """The page of two methods, as HTML.

  Args:
    config: the one that is played, see `arl.train.settings`.
    against: whose method credits the same episodes.

  Raises:
    ValueError: a setting that cannot work, a method that reads what the other's
      rollouts do not give, or no episode with a grade.
  """
  other = ml_collections.ConfigDict(config.to_dict())
  other.method = against.method.to_dict()
  configs = config, other
  methods = [build.check(one) for one in configs]
  world = build.world(config)
  strategy, _ = tutors.make(config, world)
  there = fills.filled(config, world.env, strategy)
  fills.check(methods[1], other.method.name, there)
  learners = [
    build.learner(*each, world.loaded) for each in zip(configs, methods)
  ]
  needs = frozenset().union(*(method.needs for method in methods))
  played = learners[0]._replace(method=methods[0]._replace(needs=needs))
  first = {name: knob.init for name, knob in build.knobs_of(config).items()}
  graded = outcome.play(world, played, config, first, strategy)
  if not graded:
    raise ValueError(
      'launch.credit: no episode has a grade; see launch.doctor.'
    )
  sides = [
    outcome.credited(
      world,
      learner,
      telling.make(one, learner.method, world),
      learner.state.params,
      one,
      {name: knob.init for name, knob in build.knobs_of(one).items()},
      graded,
    )
    for one, learner in zip(configs, learners)
  ]
  pairs = list(zip(*sides))
  names = config.method.name, against.method.name
  success = summary.success(graded)
  return page.credit(
    f'{names[0]} and {names[1]} on {config.env.name}',
    names,
    {
      'model': config.model.path or config.model.size,
      'episodes': str(len(graded)),
      'success': f'{success["success"]:.3f}',
      'strategy': config.rollout.strategy,
    },
    [pairs[i] for i in unlike(graded)],
  )


def unlike(graded: Sequence[episode.Episode]) -> list[int]:
  """Of each task the first episode that succeeded and the first that did not.

  Their places, in order.
  """
  found: dict[tuple[str, bool], int] = {}
  for i, one in enumerate(graded):
    solved = episode.total_reward(one) >= episode.SOLVED
    found.setdefault((one.task.id, solved), i)
  return sorted(found.values())


def define() -> None:
  """Defines the flags."""
  start.define_config(
    'config', 'What is played, and the first method: FILE.py or FILE.py:ARG.'
  )
  start.define_config(
    'against', 'The second method; of this config nothing else counts.'
  )
  flags.DEFINE_string('output', 'credit.html', 'The page to write.')


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  path = pathlib.Path(flags.FLAGS.output).absolute()
  path.parent.mkdir(parents=True, exist_ok=True)
  html = compare(flags.FLAGS.config, flags.FLAGS.against)
  path.write_text(html, encoding='utf-8')
  print(f'page: {path}')


if __name__ == '__main__':
  start.run(main, define, required=('config', 'against'))
