"""Which teachers a run has, and which of them a task is given to."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from arl import episode
from arl.envs import mixture
from arl.train import forward as forward_lib

COLUMN = 'teacher'
START = 'start'  # a teacher: the weights that the run starts from
_SERVED = ('http://', 'https://')


def named(text: str) -> dict[str, str]:
  """Teachers by the part of a mixture that each is for, in order.

  Args:
    text: one teacher, for all tasks, which has the name ''; or
      'NAME=TEACHER,NAME=TEACHER'. A teacher is the folder of a model, START
      or the URL of a server. '' for none.

  Raises:
    ValueError: names that are none or the same, or folders beside servers.
  """
  if not text:
    return {}
  first, given, _ = text.partition('=')
  if not given or not first.isidentifier():
    return {'': text}
  found: dict[str, str] = {}
  for part in text.split(','):
    name, _, teacher = part.partition('=')
    if not name.isidentifier() or not teacher or name in found:
      raise ValueError(
        f'config.model.teacher is {text!r}, of which {part!r} is no NAME=FOLDER'
        ' or NAME=URL with a name of its own.'
      )
    found[name] = teacher
  if len({served(teacher) for teacher in found.values()}) > 1:
    raise ValueError(
      f'config.model.teacher is {text!r}; give folders only, or URLs of servers'
      ' only.'
    )
  return found


def served(teacher: str) -> bool:
  """Whether a teacher, or the first of several, is a URL."""
  return teacher.rpartition('=')[2].startswith(_SERVED)


def takes(strategy: Callable) -> bool:
  """Whether a strategy lets a teacher score its rows: its attribute `takes`."""
  return 'teacher' in getattr(strategy, 'takes', frozenset())


def indexed(
  one: episode.Episode, teachers: Mapping[str, str]
) -> episode.Episode:
  """The episode with the column `teacher`: where its part is among them.

  Raises:
    ValueError: its task is of no part that has a teacher.
  """
  part = one.task.data.get(mixture.PART, '')
  if part not in teachers:
    raise ValueError(
      f'task {one.task.id!r} is of the part {part!r}, but config.model.teacher'
      f' names teachers for {", ".join(teachers)}; name one for each part of'
      " env 'mixture.make'."
    )
  index = list(teachers).index(part)
  column = np.full(len(one.tokens), index, np.int32)
  return one._replace(extras={**one.extras, COLUMN: column})


def routed(
  forwards: Sequence[forward_lib.Forward],
) -> Callable[..., dict[str, Any]]:
  """(params, columns, want) -> columns: of each token those of its teacher.

  Every model reads everything. 'logps' are the log-probs of all of them,
  [B, T, M].

  Args:
    forwards: of the models; their parameters come as a tuple, in this order.
  """

  def forward(params, columns, want):
    if len(forwards) == 1:
      return forwards[0](params[0], columns, want)
    asked = frozenset(want - {'logps'} | {'logp'})
    each = [f(p, columns, asked) for f, p in zip(forwards, params, strict=True)]
    made = {n: _pick([m[n] for m in each], columns[COLUMN]) for n in asked}
    made['logps'] = jnp.stack([m['logp'] for m in each], axis=-1)
    return {name: made[name] for name in want}

  return forward


def _pick(each: Sequence[Any], index: Any) -> Any:
  """At each place of [B, T, ...] that of the array which `index` names."""
  made = each[0]
  for i, other in enumerate(each[1:], start=1):
    here = (index == i).reshape(index.shape + (1,) * (other.ndim - 2))
    made = jnp.where(here, other, made)
  return made
