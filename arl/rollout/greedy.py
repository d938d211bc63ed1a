"""A strategy that adds what the greedy policy earns on each prompt."""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.envs import base
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import strategies


def with_baseline(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """Multi-turn episodes, and one greedy one a task: ReMax's rollouts.

  The column `baseline` of an episode is the greedy one's total reward, on all
  of its tokens; the greedy episode itself is not trained on. Where the greedy
  one has no grade, neither has the task: its episodes get that status.

  Arguments and errors as of `strategies.multi_turn`.
  """

  greedy = plan.sampling._replace(temperature=0.0, entropy=False)
  single = plan._replace(samples=1, sampling=greedy)
  best = strategies.multi_turn(engine, env, chat, tasks, single)
  made = strategies.multi_turn(engine, env, chat, tasks, plan)
  return [_told(one, best[i // plan.samples]) for i, one in enumerate(made)]


with_baseline.gives = frozenset({'baseline'})  # type: ignore[attr-defined]


def _told(one: episode.Episode, best: episode.Episode) -> episode.Episode:
  if not episode.graded(best):
    error = f'the greedy episode of its task failed: {best.error}'
    return one._replace(status=best.status, error=error)
  earned = np.full(len(one.tokens), episode.total_reward(best), np.float32)
  return one._replace(extras={**one.extras, 'baseline': earned})
