"""Skills: one line of what a finished episode teaches whoever played it.

Stage 1 of SEED (arXiv:2607.14777): a success teaches what to do, a failure what
to avoid. `make` has a model learn to write skills, `hinted.make` with the hint
'skill' to read them, and `privileged.told_skill` is taught by its own. Ours: a
skill is a line where theirs is JSON, and the one to imitate names the actions
without what is theirs alone: 'do: get =' or 'avoid: ='.
"""

import functools
import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arl import episode
from arl.envs import base
from arl.rewards import judgements

SKILL = 'skill'  # the key of a task's data
_FORM = re.compile(r'(?:do|avoid): \S.*')
_ACTION = re.compile(r'\s*(\w+|\S)?')


def asked(
  task: episode.Task, exchanges: Sequence[episode.Exchange], solved: bool
) -> episode.Task:
  """The task to write a skill about an episode."""
  became = 'right' if solved else 'wrong'
  prompt = f'skill\n{judgements.shown(task, exchanges)}\n{became}'
  return episode.Task(f'skill/{task.id}', prompt, {})


def written(exchanges: Sequence[episode.Exchange], solved: bool) -> str:
  """The skill of an episode: how its actions begin, in their order.

  With a word, or another character; what repeats is named once.
  """
  begun = (_ACTION.match(exchange.action) for exchange in exchanges)
  said = (found[1] for found in begun if found and found[1])
  kinds = [kind for kind, _ in itertools.groupby(said)]
  return f'{"do" if solved else "avoid"}: {" ".join(kinds) or "nothing"}'


def read(text: str) -> str | None:
  """The skill that a text is; None where it is none."""
  line = text.strip()
  return line if _FORM.fullmatch(line) else None


def own(env: base.Env, task: episode.Task, max_turns: int) -> str:
  """The skill of an episode of the demonstrator, the same for a task."""
  played, solved = demonstrated(env, task, max_turns)
  return written(played, solved)


def demonstrated(
  env: base.Env, task: episode.Task, max_turns: int
) -> tuple[list[episode.Exchange], bool]:
  """An episode of the demonstrator, by the task's own randomness."""
  rng = randomness(task)
  act = lambda state: env.noisy(state, rng)
  played = base.play(env, task, act, max_turns)
  earned = sum(exchange.turn.reward for exchange in played)
  return played, earned >= episode.SOLVED


def randomness(task: episode.Task) -> np.random.Generator:
  """The task's own."""
  digest = hashlib.sha256(task.id.encode()).digest()
  return np.random.default_rng(int.from_bytes(digest[:8]))


def make(*, env: Mapping[str, Any], max_turns: int) -> base.Env:
  """Episodes of the demonstrator of an environment, to write skills about.

  The skill of `written` earns 1, any other 0. There is one action.

  Args:
    env: the block of the environment, `name` and keywords.
    max_turns: actions of an episode at most, as in rollouts.

  Raises:
    ValueError: an environment without a name, or no action.
  """
  inner = base.played_in('skills', env, max_turns)
  return base.one_answer(
    functools.partial(_task, inner, max_turns),
    right=lambda task: task.data[SKILL],
    earns=_earned,
  )


def _task(
  inner: base.Env, max_turns: int, split: str, index: int
) -> episode.Task:
  task = inner.task(split, index)
  played, solved = demonstrated(inner, task, max_turns)
  return asked(task, played, solved)._replace(
    data={SKILL: written(played, solved)}
  )


def _earned(task: episode.Task, text: str) -> float:
  return float(read(text) == task.data[SKILL])
