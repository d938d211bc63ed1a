"""Who scores behind the hint, where a policy is its own teacher, told more.

By itself the policy of now, see `arl.rollout.privileged`. Weights that move
less follow it as well: those of config.model.teacher, such as `start`, those
that the run starts from, which stay; or an average of the policy's own, to
which each batch adds config.model.average of the new ones (0.05 in TRL's SDPO,
where it is a share as well). The average is part of the state and is resumed.
"""

import functools
from collections.abc import Callable

import ml_collections

from arl import names
from arl.rollout import engine as engine_lib
from arl.rollout import local
from arl.train import build, export, loading, processes, state, taught


def make(
  config: ml_collections.ConfigDict, world: build.World
) -> tuple[Callable, engine_lib.Engine | None]:
  """The strategy of a run, and the teacher that it is given.

  None where there is none, or the policy of now is it.

  Raises:
    ValueError: a teacher that reads other tokens, or fewer.
  """
  strategy = names.resolve(config.rollout.strategy, 'arl.rollout')
  block = config.model
  if not taught.takes(strategy) or not (block.teacher or block.average):
    return strategy, None
  loaded = world.loaded
  if block.teacher not in ('', taught.START):
    loaded = loading.teacher(config, block.teacher, loaded.model.vocab)
  made = local.LocalEngine(
    loaded.model,
    processes.here(loaded.params),
    slots=config.updates.microbatch,
    context=config.rollout.context,
    seed=config.seed,
  )
  bound = functools.partial(strategy, teacher=made)
  return functools.update_wrapper(bound, strategy), made


def follow(
  teacher: engine_lib.Engine | None, now: state.TrainState, version: int
) -> None:
  """Gives a teacher that is an average its weights; others stay."""
  if teacher and now.average:
    teacher.set_params(export.policy_params(now.average), version)
