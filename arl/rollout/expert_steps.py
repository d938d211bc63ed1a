"""Steps along an expert's episode, each answered by the policy: ESPO's.

A task is an episode of the environment's oracle (ODYSSE, arXiv:2607.25369). At
each of its steps the policy is shown what the expert was, with all that he did
before, and answers a few times. An answer earns 1 if it is the expert's action,
as text, otherwise 0; it is not played on. Left out: a further reward for the
form, which an answer that is right has anyway.

Whole episodes are the unit of sampling: what they earn together is credited to
all of their steps. So a task's steps share its id, and `stage` refuses an
update that has some of them only.
"""

from collections.abc import Callable

import numpy as np

from arl import episode, kinds
from arl.rollout import engine as engine_lib
from arl.rollout import resume, strategies


def by_place(step: int, count: int) -> int:
  """The last step is what the episode is about, the others lead up to it."""
  return kinds.INTENT if step == count - 1 else kinds.EVIDENCE


def along(stage: Callable[[int, int], int]) -> strategies.Strategy:
  """The strategy that samples answers to all steps of an expert's episode.

  The samples of a task are shared out among its steps, each as many; what is
  left over is not sampled.

  Args:
    stage: (step, steps) -> what the step is, of `arl.kinds`.
  """

  def strategy(engine, env, chat, tasks, plan):
    """An episode an answer, on whose mask it alone is, with its `stage`.

    Raises:
      ValueError: an expert's episode that the limits cut off, or of more steps
        than there are two samples for.
    """
    made = [
      _answers(env, chat, task, (*plan.path, place), plan)
      for place, task in enumerate(tasks, plan.first)
    ]
    rows = [row for each in made for row, _ in each if not row.status]
    requests = [
      strategies.request(row, plan.limits, len(row.exchanges)) for row in rows
    ]
    sampling = plan.sampling._replace(stop=chat.stop)
    answers = resume.generate(engine.generate, requests, sampling)
    told = dict(zip(map(id, rows), answers))
    return [
      _told(row, expert, told.get(id(row)), chat, stage)
      for each in made
      for row, expert in each
    ]

  strategy.gives = frozenset({'stage'})  # type: ignore[attr-defined]
  strategy.lacks = frozenset(  # type: ignore[attr-defined]
    {'routed_experts', 'process_rewards'}
  )
  return strategy


def _answers(
  env, chat, task, path, plan: strategies.Plan
) -> list[tuple[strategies.Live, strategies.Live]]:
  """The rows to answer of a task, and what the expert did of each.

  One that has ended, where the environment fails the expert.
  """
  expert, before = _play(env, chat, task, path, plan.limits)
  if expert.status not in episode.GRADED:
    return [(expert, expert)]
  count = plan.samples // len(before)
  if count < 2:
    raise ValueError(
      f'expert_steps: the expert takes {len(before)} steps of task {task.id!r},'
      f' and {plan.samples} samples leave none of them two to compare; set'
      f' prompts.samples to {2 * len(before)} or more.'
    )
  made: list[tuple[strategies.Live, strategies.Live]] = []
  for row in before:
    for _ in range(count):
      answered = row.copy(path)
      answered.sample = len(made)
      made.append((answered, expert))
  return made


def _play(env, chat, task, path, limits):
  """The expert's row, and the row before each of his steps, as context.

  Raises:
    ValueError: the limits cut him off.
  """
  row = strategies.start(env, chat, task, limits, 0, path)
  before = []
  while not row.status:
    kept = row.copy(path)
    n = len(kept.tokens)
    kept.mask, kept.logp, kept.rewards = [False] * n, [0.0] * n, [0.0] * n
    kept.process, kept.ends = [np.nan] * n, []
    before.append(kept)
    ids = chat.action(env.oracle(row.state))
    long = len(ids) > limits.turn_tokens
    if long or len(row.tokens) + len(ids) > limits.context:
      row.end(episode.MAX_TOKENS)
      break
    row.write(ids)
    strategies.advance(row, ids, engine_lib.STOP, env, chat, limits)
  if row.status in episode.TRUNCATED:
    raise ValueError(
      f'expert_steps: the expert does not come to an end of task {task.id!r}'
      f' within the limits ({row.status}); raise those of config.rollout.'
    )
  return row, before


def _told(row, expert, answer, chat, stage) -> episode.Episode:
  """The episode of an answer, with what the step is and of how many."""
  count, step = len(expert.exchanges), len(row.exchanges)
  if answer is not None:
    row.take(answer)
    action = chat.decode([int(i) for i in answer.tokens])
    ended = answer.finish != engine_lib.LENGTH
    right = ended and action.strip() == expert.exchanges[step].action.strip()
    turn = episode.Turn('', float(right), True)
    row.exchanges.append(episode.Exchange(action, turn))
    row.rewards[-1] = turn.reward
    row.end(episode.FINISHED if ended else episode.MAX_TOKENS)
  made = row.episode()
  n = len(made.tokens)
  told = {
    'stage': np.full(n, stage(step, count), np.int32),
    'expert_steps': np.full(n, count, np.int32),
  }
  extras = {k: x for k, x in made.extras.items() if k != 'process_rewards'}
  return made._replace(extras={**extras, **told})


espo = along(by_place)
