"""A strategy whose episodes each advance at their own pace.

`strategies.multi_turn` advances all episodes together, so the slowest answer of
an environment holds up every turn. Here an episode goes on as soon as its own
environment has answered: for environments that run programs or ask servers.
Samples depend on their requests alone, so both strategies make the same
episodes.
"""

import asyncio
import concurrent.futures
import functools
from collections.abc import Sequence
from typing import Any

from arl import episode
from arl.envs import base
from arl.rollout import alike, batching, event_loop, resume, strategies
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib

STEPS = 256  # environments that work at the same time; more wait


def multi_turn(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """Independent multi-turn episodes; `env` is called from several threads.

  Arguments, result and errors as of `strategies.multi_turn`. An error that is
  no episode's own cancels all others.
  """
  pool = concurrent.futures.ThreadPoolExecutor(STEPS, 'environment')
  loop = event_loop.Loop()
  try:
    with batching.coroutines(engine) as asked:
      rows = [
        one(asked, pool, env, chat, plan, task, sample, (*plan.path, place))
        for place, task in enumerate(tasks, plan.first)
        for sample in range(plan.samples)
      ]
      made = loop.run(event_loop.together(rows))
    alike.warn(made, plan.sampling.temperature)
    return made
  finally:
    loop.stop()
    pool.shutdown(cancel_futures=True)


async def one(
  asked: Any,
  pool: concurrent.futures.Executor,
  env: base.Env,
  chat: chat_lib.Chat,
  plan: strategies.Plan,
  task: episode.Task,
  sample: int,
  path: tuple[int, ...],
) -> episode.Episode:
  """One episode from its task to its end, at its own pace.

  Args:
    asked: an engine with coroutines.
    pool: where the environment answers.
    env: what answers.
    chat: how text becomes ids.
    plan: how the episode is rolled out; its own path is not read.
    task: the problem.
    sample: which of the episodes of the task.
    path: leading numbers of the randomness of its requests.
  """
  limits, sampling = plan.limits, plan.sampling._replace(stop=chat.stop)
  here = functools.partial(asyncio.get_running_loop().run_in_executor, pool)
  row = await here(strategies.start, env, chat, task, limits, sample, path)
  for turn in range(limits.max_turns):
    if row.status:
      break
    request = strategies.request(row, limits, turn)
    answer = await resume.sample(asked.sample, request, sampling)
    row.take(answer)
    ids, finish = answer.tokens, answer.finish
    await here(strategies.advance, row, ids, finish, env, chat, limits)
  return row.episode()
