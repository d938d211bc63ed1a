"""An environment whose tasks are to judge what a demonstrator did in another.

The right judgement is what that episode earned. A model learns here to judge,
before it judges itself in `arl.rollout.self_rewarding`.
"""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from arl import episode, names
from arl.envs import base
from arl.rewards import judgements

POINTS = 'points'  # the key of a task's data
_SPLITS = {split: i for i, split in enumerate(base.SPLITS)}


def make(*, env: Mapping[str, Any], form: str, max_turns: int) -> base.Env:
  """Episodes of the demonstrator of an environment, to be judged.

  An episode deserves so much of the five points as it earned of 1, rounded; a
  judgement of as many points earns 1, any other 0. There is one action.

  Args:
    env: the block of the environment, `name` and keywords.
    form: the judgement's, such as 'judgements.short'.
    max_turns: actions of an episode at most, as in rollouts.

  Raises:
    ValueError: an unknown form, an environment without a name, or no action.
  """
  inner = base.played_in('judging', env, max_turns)
  made = names.resolve(form, 'arl.rewards')()
  return base.one_answer(
    functools.partial(_task, inner, made, max_turns),
    right=lambda task: made.write(task.data[POINTS]),
    earns=functools.partial(_earned, made),
  )


def _task(
  inner: base.Env,
  form: judgements.Form,
  max_turns: int,
  split: str,
  index: int,
) -> episode.Task:
  task = inner.task(split, index)
  rng = np.random.default_rng((_SPLITS[split], index))
  act = lambda state: inner.noisy(state, rng)
  played = base.play(inner, task, act, max_turns)
  earned = sum(exchange.turn.reward for exchange in played)
  points = round(judgements.POINTS * min(max(earned, 0.0), 1.0))
  system, prompt = form.ask(task, played)
  return episode.Task(f'judging/{task.id}', prompt, {POINTS: points}, system)


def _earned(form: judgements.Form, task: episode.Task, text: str) -> float:
  right = form.read(form.write(task.data[POINTS])).score
  return float(form.read(text).score == right)
