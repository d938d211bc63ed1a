"""Strategies that read recorded answers: preferences to learn from.

Tasks are those of the environment `recorded`. The engine is not asked, so the
log-probs of all tokens are nan: a method that learns from them must not read
what sampled them. Conversations are printed by the tokenizer's own template,
tools included.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from arl import episode
from arl.envs import base
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import messages, printed, strategies, templates


def pairs(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """Two episodes a task: the chosen answer earns 1, the rejected one 0.

  Raises:
    ValueError: other than two samples a task; or a record, by its name, that is
      no pair, cannot be spelled, is longer than the context, or whose answers
      are the same tokens.
  """
  del engine, env
  _check_samples('pairs', plan)
  template = templates.of(chat.tokenizer)
  made = []
  for task in tasks:
    prompt = _prompt(template, task)
    answers = [_answer(template, task, key) for key in ('chosen', 'rejected')]
    if answers[0] == answers[1]:
      raise ValueError(
        f'{_name(task)}: chosen and rejected are the same tokens; drop it.'
      )
    made += [
      _episode(task, sample, prompt, ids, 1.0 - sample, plan.limits)
      for sample, ids in enumerate(answers)
    ]
  return made


def unpaired(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """Two episodes a task, for KTO: its answer, and that of the next task.

  A good answer earns 1, a bad one 0. The column `mismatched` is true in the
  second, which is a group of its own and earns nothing; the last task's is the
  answer to the first.

  Raises:
    ValueError: other than two samples a task, a single task, or a record as in
      `pairs`.
  """
  del engine, env
  _check_samples('unpaired', plan)
  if len(tasks) < 2:
    raise ValueError(
      f'recorded.unpaired: {_name(tasks[0])} is alone in its batch, and has no'
      ' other to be mismatched with; set prompts.batch to 2 or more.'
    )
  template = templates.of(chat.tokenizer)
  prompts = [_prompt(template, task) for task in tasks]
  answers = [_answer(template, task, 'completion') for task in tasks]
  made = []
  for place, task in enumerate(tasks):
    other = answers[(place + 1) % len(tasks)]
    apart = task._replace(id=f'{task.id}/mismatched')
    good, limits = float(task.data['label']), plan.limits
    made += [
      _episode(task, 0, prompts[place], answers[place], good, limits, False),
      _episode(apart, 1, prompts[place], other, 0.0, limits, True),
    ]
  return made


unpaired.gives = frozenset({'mismatched'})  # type: ignore[attr-defined]
unpaired.together = True  # type: ignore[attr-defined]
for _strategy in (pairs, unpaired):
  _strategy.lacks = frozenset(  # type: ignore[attr-defined]
    {'rollout_entropy', 'routed_experts'}
  )


def _check_samples(name: str, plan: strategies.Plan) -> None:
  if plan.samples != 2:
    raise ValueError(
      f'recorded.{name} makes two episodes a task, but prompts.samples is'
      f' {plan.samples}; set it to 2.'
    )


def _name(task: episode.Task) -> str:
  return str(task.data.get('name', task.id))


def _field(task: episode.Task, key: str) -> Any:
  if key not in task.data:
    raise ValueError(
      f'{_name(task)} has no {key!r}; a strategy of pairs reads pairs, that of'
      ' single answers single answers, both from the environment recorded.make.'
    )
  return task.data[key]


def _prompt(template: templates.Template, task: episode.Task) -> list[int]:
  """The ids of a record's conversation, up to where the assistant speaks."""
  try:
    said = messages.read(_field(task, 'messages'))
    alone = [None] * len(said)
    return printed.prompt(template, said, alone, task.data['tools'])
  except printed.FOUND as error:
    raise ValueError(f'{_name(task)}: {error}') from error


def _answer(
  template: templates.Template, task: episode.Task, key: str
) -> list[int]:
  """The ids of a record's answer, the one that ends the turn included."""
  try:
    said = messages.read([*task.data['messages'], _field(task, key)])
    return printed.answer(template, said, task.data['tools'])
  except printed.FOUND as error:
    raise ValueError(f'{_name(task)}, {key}: {error}') from error


def _episode(
  task, sample, prompt, answer, reward, limits, mismatched=None
) -> episode.Episode:
  n = len(prompt) + len(answer)
  if n > limits.context:
    raise ValueError(
      f'{_name(task)} has {n} tokens with its answer, but the context is'
      f' {limits.context}; raise rollout.context or drop the record.'
    )
  row = strategies.Live(task, sample, ())
  row.observe(prompt)
  row.write(answer)
  row.rewards[-1] = reward
  row.end(episode.FINISHED)
  made = row.episode()
  if mismatched is None:
    return made
  mark = np.full(n, mismatched)
  return made._replace(extras={**made.extras, 'mismatched': mark})
