"""Strategies in which the policy is its own teacher, told more.

What the policy sampled is scored once more by the same engine, with the weights
that sampled it, behind another beginning: the prompt with a hint before it. The
tokens of the policy and of the environment stay the ids that they are. The
scores are the column `teacher_logp`, and `hinted` is true where there was a
hint; see `distillation.privileged` for what is known of the harm that this may
do. Other weights may score in its place, as a `teacher`: those that the run
started from, or an average of the policy's own.
"""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.envs import base, hinted, skills
from arl.rollout import asides, strategies
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib


def told_answer(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
  *,
  teacher: engine_lib.Engine | None = None,
) -> list[episode.Episode]:
  """Multi-turn episodes, scored by the policy that is told the right answer.

  The context that they may fill is shorter by the longest hint.

  Arguments and errors as of `strategies.multi_turn`, and:

  Args:
    teacher: what scores behind the hint; None for the engine itself.
  """
  hints = [hinted.answer(env, task) for task in tasks]
  return _behind(engine, env, chat, tasks, plan, hints, teacher or engine)


def told_steps(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
  *,
  teacher: engine_lib.Engine | None = None,
) -> list[episode.Episode]:
  """As `told_answer`; the hint is what the environment's oracle would do."""
  hints = [hinted.steps(env, task) for task in tasks]
  return _behind(engine, env, chat, tasks, plan, hints, teacher or engine)


def told_success(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
  *,
  teacher: engine_lib.Engine | None = None,
) -> list[episode.Episode]:
  """As `told_answer`; the hint is what the best rollout of the task did.

  Nothing is asked of the environment beside rewards. An episode that earned as
  much as the best, or that has no room for the hint, is taught nothing: its
  `teacher_logp` are the engine's own, and `hinted` is false.
  """
  made = strategies.multi_turn(engine, env, chat, tasks, plan)
  best = {
    group.task.id: max(group.episodes, key=_earned)
    for group in episode.groups(made)
  }
  hints: list[str | None] = []
  for one in made:
    other = best[one.task.id]
    better = _earned(other) > _earned(one)
    said = ' '.join(exchange.action for exchange in other.exchanges)
    hints.append(said if better else None)
  return _scored(teacher or engine, chat, plan, made, hints)


def told_skill(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
  *,
  teacher: engine_lib.Engine | None = None,
) -> list[episode.Episode]:
  """As `told_answer`; the hint is the skill that the policy itself then wrote.

  One about each episode, as of SEED (arXiv:2607.14777) with its scope of an
  episode. An episode about which it wrote none, or that has no room for it, is
  taught nothing.
  """
  made = strategies.multi_turn(engine, env, chat, tasks, plan)
  asked = [_about(one) if episode.graded(one) else None for one in made]
  said = asides.ask(engine, chat, plan, asked)
  hints = [
    _spelt(chat, one, skills.read(answers[0].text)) if answers else None
    for one, answers in zip(made, said)
  ]
  return _scored(teacher or engine, chat, plan, made, hints)


def _about(one: episode.Episode) -> episode.Task:
  solved = episode.total_reward(one) >= episode.SOLVED
  return skills.asked(one.task, one.exchanges, solved)


def _spelt(chat, one: episode.Episode, hint: str | None) -> str | None:
  """The hint, if the template can show it."""
  if hint is None:
    return None
  try:
    chat.opening(hinted.told(one.task, hint))
  except chat_lib.UnfitText:
    return None
  return hint


for _strategy in (told_answer, told_steps, told_success, told_skill):
  _strategy.gives = frozenset(  # type: ignore[attr-defined]
    {'teacher_logp', 'hinted'}
  )
  _strategy.takes = frozenset({'teacher'})  # type: ignore[attr-defined]
told_answer.asks = frozenset({'answer'})  # type: ignore[attr-defined]


def _earned(one: episode.Episode) -> float:
  return episode.total_reward(one) if episode.graded(one) else -np.inf


def _behind(
  engine, env, chat, tasks, plan, hints, teacher
) -> list[episode.Episode]:
  """Rolls out with room for the hint of each task, and scores behind it."""
  longer = [
    len(chat.opening(hinted.told(task, hint))) - len(chat.opening(task))
    for task, hint in zip(tasks, hints)
  ]
  context = plan.limits.context - max(longer, default=0)
  limits = plan.limits._replace(context=context)
  made = strategies.multi_turn(
    engine, env, chat, tasks, plan._replace(limits=limits)
  )
  each = [hint for hint in hints for _ in range(plan.samples)]
  return _scored(teacher, chat, plan, made, each)


def _scored(teacher, chat, plan, made, hints) -> list[episode.Episode]:
  """The episodes with `teacher_logp`; that of one without a hint is its own."""
  rows = {}
  for i, (one, hint) in enumerate(zip(made, hints)):
    if hint is None or not np.any(one.mask):
      continue
    row = behind(chat, one, hint)
    if len(row) <= plan.limits.context:
      rows[i] = row
  scores = teacher.score(list(rows.values()), plan.sampling.temperature)
  told = dict(zip(rows, scores, strict=True))
  return [_told(one, told.get(i)) for i, one in enumerate(made)]


def behind(chat, one: episode.Episode, hint: str) -> list[int]:
  """The episode's ids behind another beginning."""
  begun = len(chat.opening(one.task))
  rest = [int(i) for i in one.tokens[begun:]]
  return [*chat.opening(hinted.told(one.task, hint)), *rest]


def _told(one: episode.Episode, found: np.ndarray | None) -> episode.Episode:
  """The episode with the scores of a row that ends as it does, or its own."""
  score = one.logp if found is None else found
  column = np.where(one.mask, score[len(score) - len(one.tokens) :], 0)
  told = {
    'teacher_logp': column.astype(np.float32),
    'hinted': np.full(len(one.tokens), found is not None),
  }
  return one._replace(extras={**one.extras, **told})
