"""A strategy that tells what would have been better: hindsight to imitate."""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.envs import base
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import strategies


def rewritten(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """Multi-turn episodes; those that fail are rewritten from where they failed.

  The first wrong step is the one after which the environment's demonstrator
  cannot succeed any more; it and all after it are replaced by what that one
  does, and only these turns are on the mask. Of what cannot be saved, and of
  what was right, nothing is. Surveys tell it of WebRL (arXiv:2411.02337), which
  does not do it; here the demonstrator stands for their stronger model, and the
  environment for the judge of its answer. Rewards are those that the policy
  itself earned, so that they say how it does.

  Arguments and errors as of `strategies.multi_turn`. Steps are taken again in
  `env`, which has to answer them as before.
  """
  made = strategies.multi_turn(engine, env, chat, tasks, plan)
  return [_retold(one, env, chat, plan.limits) for one in made]


rewritten.lacks = frozenset(  # type: ignore[attr-defined]
  {'rollout_entropy', 'routed_experts', 'process_rewards', 'kind'}
)


def _retold(one, env, chat, limits) -> episode.Episode:
  """The episode with its failure replaced, or one without a word to learn."""
  if episode.graded(one) and episode.total_reward(one) < episode.SOLVED:
    try:
      states = _states(one, env)
      for turn in reversed(range(len(states))):
        found = _saved(one, turn, states[turn], env, chat, limits)
        if found:
          return found
    except base.FAILURES as error:
      return one._replace(status=error.status, error=str(error))
  unknown = np.where(one.mask, np.nan, one.logp).astype(np.float32)
  return one._replace(mask=np.zeros_like(one.mask), logp=unknown)


def _states(one: episode.Episode, env: base.Env) -> list[base.State]:
  """The state before each action."""
  states = [base.checked_reset(env, one.task)]
  for exchange in one.exchanges[:-1]:
    states.append(base.checked_step(env, states[-1], exchange.action)[0])
  return states


def _saved(one, turn, state, env, chat, limits) -> episode.Episode | None:
  """The episode with all from a turn on replaced; None if that fails too."""
  start = int(np.flatnonzero(one.mask & (one.turn == turn))[0])
  row = strategies.Live(one.task, one.sample, ())
  row.observe(one.tokens[:start])
  row.turn = one.turn[:start].tolist()
  row.exchanges, row.state = list(one.exchanges[:turn]), state
  earned = float(np.sum(one.rewards[:start]))
  while not row.status:
    ids = chat.action(env.oracle(row.state))
    if len(row.tokens) + len(ids) > limits.context:
      return None
    row.write(ids)
    strategies.advance(row, ids, engine_lib.STOP, env, chat, limits)
  if (
    row.status != episode.FINISHED or earned + sum(row.rewards) < episode.SOLVED
  ):
    return None
  own = np.zeros(len(row.tokens), np.float32)
  own[-1] = episode.total_reward(one)
  return row.episode()._replace(rewards=own)
