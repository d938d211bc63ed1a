"""Which columns a run can fill, and what to set for those that it does not."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections

from arl import columns as columns_lib
from arl import names, types
from arl.envs import base
from arl.models import teachers
from arl.train import routing, score, taught, turning

_ALWAYS = (
  'logp', 'entropy', 'old_logp', 'old_entropy', 'ref_logp', 'features',
  'own_logp', 'old_ids', 'old_own_logp',
  'truncated', 'step_of_group', 'rollout_entropy',
  'noise', 'iteration', 'progress', 'sampling_weight',
)  # fmt: skip
CRITICS = frozenset(
  {'value', 'value_after', 'old_value', 'value_logits', 'old_value_logits'}
)
_OF_TEACHER = score.TAUGHT | {'top_logp', taught.COLUMN}
_OF_SEVERAL = frozenset({taught.COLUMN, 'teacher_logps'})
# Nobody tells a server which tokens of the policy to speak of.
_OF_SERVER = frozenset(
  {'teacher_logp', 'teacher_entropy', 'teacher_ids', 'teacher_top_logp',
   'top_logp'}
)  # fmt: skip
OWN = frozenset({'noise', 'iteration', 'progress'})  # of LOOP, no knobs


def filled(
  config: ml_collections.ConfigDict, env: base.Env, strategy: Callable
) -> frozenset[str]:
  """The columns beside the observed ones that a run with this config fills.

  Args:
    config: of the run.
    env: its environment.
    strategy: how it rolls out; the columns that it adds to episodes are its
      attribute `gives`, if it has one, and those that its episodes cannot have
      its attribute `lacks`.
  """
  bins = config.model.value_bins
  values = ('value_logits', 'old_value_logits')
  replayed = config.updates.routing == routing.ROLLOUT
  lacks: frozenset[str] = getattr(strategy, 'lacks', frozenset())
  gives: frozenset[str] = getattr(strategy, 'gives', frozenset())
  there = frozenset(
    (
      *_ALWAYS,
      *(values if bins else ('value', 'value_after', 'old_value')),
      *(() if taught.takes(strategy) else _of_teachers(config.model.teacher)),
      *(('reconsidering',) if config.rollout.reconsidering else ()),
      *(('kind',) if env.parts else ()),
      *(('state',) if env.anchor else ()),
      *(('process_rewards',) if env.scores_steps else ()),
      *((routing.COLUMN, 'rerouted') if replayed else ()),
      *gives,
      *(('top_logp',) if 'teacher_ids' in gives else ()),
      *(set(config.knobs) - turning.NAMES),
      *((turning.COLUMN,) if turning.TEMPERATURE in config.knobs else ()),
    )
  )
  return there - lacks


def _of_teachers(text: str) -> frozenset[str]:
  """The columns that the teachers of a run fill."""
  number = len(taught.named(text))
  if not number:
    return frozenset()
  given = _OF_SERVER if taught.served(text) else _OF_TEACHER
  if number == 1:
    return given - _OF_SEVERAL
  return (given | _OF_SEVERAL) - teachers.DIVERGENCES


def check_used(made: types.Method, config: ml_collections.ConfigDict) -> None:
  """Refuses settings that fill what the method does not read.

  Raises:
    ValueError: naming the setting.
  """
  model, said = config.model, config.rollout.reconsidering
  bins = {'value_logits', 'old_value_logits'}
  strategy = names.resolve(config.rollout.strategy, 'arl.rollout')
  teaches = bool(model.teacher) and not _asks_for_itself(strategy)
  settings = [
    ('model.teacher', teaches, _OF_TEACHER),
    ('rollout.reconsidering', bool(said), {'reconsidering'}),
    ('model.critic', bool(model.critic), CRITICS),
    ('model.value_bins', bool(model.value_bins), bins),
    *(
      (f'knobs.{name}', True, {name})
      for name in set(config.knobs) - turning.NAMES
    ),
  ]
  for setting, given, columns in settings:
    if given and not columns & made.needs:
      raise ValueError(
        f'config.{setting} is set, but {config.method.name} does not read'
        f' {" or ".join(sorted(columns))}; leave it empty, or choose a method'
        ' that does.'
      )


def _asks_for_itself(strategy: Callable) -> bool:
  """Whether a strategy has a teacher score what no method is told."""
  gives: frozenset[str] = getattr(strategy, 'gives', frozenset())
  return taught.takes(strategy) and not gives & _OF_TEACHER


def check_replay(
  config: ml_collections.ConfigDict, there: frozenset[str]
) -> None:
  """Refuses to replay experts that no engine reports.

  Raises:
    ValueError: the strategy's episodes do not hold them.
  """
  if config.updates.routing == routing.ROLLOUT and routing.COLUMN not in there:
    raise ValueError(
      f'config.updates.routing is {routing.ROLLOUT!r}, but episodes of'
      f' {config.rollout.strategy} do not say which experts their tokens went'
      f' through; set it to {routing.OWN!r}, or choose a rollout.strategy whose'
      ' tokens the engine samples.'
    )


def check(made: types.Method, name: str, there: frozenset[str]) -> None:
  """Refuses a method that reads what this run does not fill.

  Raises:
    ValueError: naming the column and what to set.
  """
  missing = sorted(made.needs - there)
  if not missing:
    return
  first = missing[0]
  if first not in columns_lib.COLUMNS:
    near = names.suggest(first, columns_lib.COLUMNS)
    raise ValueError(f'{name} needs {first!r}, which is no column{near}')
  setting = columns_lib.COLUMNS[first].setting
  if first in ('value', 'value_after', 'old_value'):
    setting = 'set config.model.value_bins to 0, for a critic of one number'
  raise ValueError(
    f'{name} needs column {first!r} ({columns_lib.COLUMNS[first].meaning}),'
    f' which nothing fills in this run; {setting}.'
  )


def from_loop(
  needs: frozenset[str],
  shape: tuple[int, int],
  *,
  seed: int,
  step: int,
  steps: int,
  knobs: Mapping[str, float],
) -> dict[str, Any]:
  """The columns that the loop itself gives a batch, as far as it is asked.

  Args:
    needs: of the method.
    shape: [B, T] of the batch.
    seed: of the run.
    step: batches before this one.
    steps: batches of the run.
    knobs: their values now.
  """
  made = {name: jnp.float32(value) for name, value in knobs.items()}
  made['iteration'] = jnp.float32(step)
  made['progress'] = jnp.float32(step / steps)
  if 'noise' in needs:
    key = jax.random.fold_in(jax.random.key(seed), step)
    made['noise'] = jax.random.uniform(key, shape)
  return {name: column for name, column in made.items() if name in needs}
