"""What gathering carries from step to step, and its place in a checkpoint."""

from typing import Any, NamedTuple

from arl import episode
from arl.envs import base
from arl.prompts import curricula, replay
from arl.rollout import group_queue, partial, stored


class Kept(NamedTuple):
  """What gathering carries from a step to the next.

  Attributes:
    chosen: the state of the curriculum.
    surplus: groups that were selected and wait to be trained on.
    buffer: groups to train on again.
    spreads: see `collapse.watch`.
    unfinished: episodes that go on in a later step.
    ahead: groups that are sampled ahead, where they are.
  """

  chosen: curricula.State
  surplus: tuple[replay.Item, ...] = ()
  buffer: tuple[replay.Item, ...] = ()
  spreads: tuple[float, ...] = ()
  unfinished: tuple[partial.Part, ...] = ()
  ahead: group_queue.Queue | None = None


def to_json(kept: Kept) -> dict[str, Any]:
  """What is kept, for a checkpoint."""
  return {
    'chosen': dict(kept.chosen),
    'surplus': [_item_to_json(item) for item in kept.surplus],
    'buffer': [_item_to_json(item) for item in kept.buffer],
    'spreads': list(kept.spreads),
    'unfinished': [partial.to_json(part) for part in kept.unfinished],
    'ahead': group_queue.to_json(kept.ahead) if kept.ahead else None,
  }


def from_json(made: Any, env: base.Env) -> Kept:
  """What `to_json` wrote; the environment plays again what is unfinished."""
  return Kept(
    chosen=made['chosen'],
    surplus=tuple(_item_from_json(one) for one in made['surplus']),
    buffer=tuple(_item_from_json(one) for one in made['buffer']),
    spreads=tuple(made['spreads']),
    unfinished=tuple(partial.from_json(one, env) for one in made['unfinished']),
    ahead=group_queue.from_json(made['ahead']) if made['ahead'] else None,
  )


def _item_to_json(item: replay.Item) -> dict[str, Any]:
  episodes = [stored.to_json(one) for one in item.group.episodes]
  made = {'task': episode.task_to_json(item.group.task), 'episodes': episodes}
  return {**made, 'version': item.version, 'uses': item.uses}


def _item_from_json(made: Any) -> replay.Item:
  episodes = [stored.from_json(one) for one in made['episodes']]
  group = episode.Group(episode.task_from_json(made['task']), episodes)
  return replay.Item(group, made['version'], made['uses'])
