"""Several environments behind one: each task is drawn from one of them.

A task of a mixture says which part it is of, in its data: where a run has a
teacher for each part, that is the teacher it is given to.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode, names
from arl.envs import base, calls

PART = 'part'  # the key of a task's data
_SPLITS = {split: i for i, split in enumerate(base.SPLITS)}


class State(NamedTuple):
  """Where an episode stands: its part, and the state there."""

  part: str
  inner: base.State


def make(
  *,
  parts: Mapping[str, Mapping[str, Any]],
  weights: Mapping[str, float] | None = None,
) -> base.Env:
  """Tasks of each part as often as its weight says.

  The task of an index is that of the same index in the part that is drawn for
  it. What not all parts tell, such as reference answers or scores of steps, the
  mixture does not tell; what an action consists of (`Env.parts`) only where
  they have one function for it, since a text does not say where it was said. An
  agent from outside (`Env.harness`) cannot play a mixture.

  Args:
    parts: by name: the block of each environment, `name` and keywords.
    weights: by the same names, positive; None for all alike.

  Raises:
    ValueError: fewer than two parts, a part without a weight or a weight that
      is not positive, or parts whose tools of one name differ.
  """
  if len(parts) < 2:
    raise ValueError(
      f'mixture: parts has {len(parts)}; give two or more, or the block of the'
      ' environment itself.'
    )
  envs = {name: _part(name, block) for name, block in parts.items()}
  shares = _shares(list(envs), weights)
  told = lambda field: all(getattr(e, field) is not None for e in envs.values())
  return base.Env(
    task=functools.partial(_task, envs, shares),
    reset=functools.partial(_reset, envs),
    step=functools.partial(_step, envs),
    oracle=lambda state: envs[state.part].oracle(state.inner),
    noisy=lambda state, rng: envs[state.part].noisy(state.inner, rng),
    answer=functools.partial(_answer, envs) if told('answer') else None,
    parts=_alike([env.parts for env in envs.values()]),
    scores_steps=all(env.scores_steps for env in envs.values()),
    anchor=functools.partial(_anchor, envs) if told('anchor') else None,
    tools=_tools(envs),
  )


def _part(name: str, block: Mapping[str, Any]) -> base.Env:
  keywords = dict(block)
  if 'name' not in keywords:
    raise ValueError(
      f'mixture: the part {name!r} needs a name: the function that makes its'
      ' environment.'
    )
  return names.resolve(keywords.pop('name'), 'arl.envs')(**keywords)


def _shares(
  parts: Sequence[str], weights: Mapping[str, float] | None
) -> tuple[float, ...]:
  """The weights, added up part by part to 1."""
  given = dict.fromkeys(parts, 1.0) if weights is None else weights
  if given.keys() != set(parts) or not all(w > 0 for w in given.values()):
    raise ValueError(
      f'mixture: the parts are {", ".join(parts)}, the weights {dict(given)};'
      ' give each part one, above 0.'
    )
  added = np.cumsum([given[name] for name in parts])
  return tuple(float(x) for x in added / added[-1])


def _task(
  envs: Mapping[str, base.Env], shares: Sequence[float], split: str, index: int
) -> episode.Task:
  base.task_id('mixture', split, index)  # refuses what is no split or index
  drawn = np.random.default_rng((_SPLITS[split], index)).random()
  name = list(envs)[int(np.searchsorted(shares, drawn, side='right'))]
  inner = envs[name].task(split, index)
  if PART in inner.data:
    raise ValueError(
      f'mixture: the data of task {inner.id!r} has a {PART!r} already; put the'
      ' parts of a mixture into one mixture.'
    )
  data = {**inner.data, PART: name}
  return inner._replace(id=f'{name}/{inner.id}', data=data)


def _inner(task: episode.Task) -> tuple[str, episode.Task]:
  """The part of a task, and the task as the part made it."""
  name = task.data[PART]
  data = {key: x for key, x in task.data.items() if key != PART}
  return name, task._replace(id=task.id.removeprefix(f'{name}/'), data=data)


def _reset(envs: Mapping[str, base.Env], task: episode.Task) -> State:
  name, inner = _inner(task)
  return State(name, envs[name].reset(inner))


def _step(
  envs: Mapping[str, base.Env], state: State, text: str
) -> tuple[State, episode.Turn]:
  after, turn = envs[state.part].step(state.inner, text)
  return state._replace(inner=after), turn


def _answer(envs: Mapping[str, base.Env], task: episode.Task) -> str:
  name, inner = _inner(task)
  answer = envs[name].answer
  assert answer is not None
  return answer(inner)


def _anchor(envs: Mapping[str, base.Env], state: State) -> str:
  anchor = envs[state.part].anchor
  assert anchor is not None
  return f'{state.part}: {anchor(state.inner)}'


def _alike(functions: Sequence[Callable | None]) -> Callable | None:
  return functions[0] if len(set(functions)) == 1 else None


def _tools(envs: Mapping[str, base.Env]) -> list[calls.Tool]:
  """The tools of all parts, each once.

  Raises:
    ValueError: two of one name are not the same.
  """
  found: dict[str, calls.Tool] = {}
  for name, env in envs.items():
    for tool in env.tools:
      first = found.setdefault(tool.name, tool)
      if first[:-1] != tool[:-1]:
        raise ValueError(
          f'mixture: the tool {tool.name!r} of the part {name!r} is not that of'
          ' an earlier part; give one of them another name.'
        )
  return list(found.values())
