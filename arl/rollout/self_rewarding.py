"""Strategies in which the policy judges its own episodes: self-rewarding.

arXiv:2401.10020. What the policy did is shown to the same engine, with the
weights that did it, and it says how much of five points that deserves; this
takes the place of what the environment paid. Pairs of it are those of
`pairs.best_against_worst`, learnt by `preference.dpo`.
"""

from collections.abc import Callable, Sequence

import numpy as np

from arl import episode
from arl.envs import base
from arl.rewards import judge, judgements, verdict
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import resume, strategies

Strategy = Callable[..., list[episode.Episode]]


def judged(form: judgements.Form, *, times: int = 3) -> Strategy:
  """The strategy whose episodes earn the mean of their own judgements.

  It is on the last token that the policy sampled, from 0 to 1. Of the `times`
  judgements those count that can be read; where none can be, or the prompt
  leaves no room for one, the episode has no grade and is not compared. What the
  environment paid is kept in the extras, as `episode.PAID`. A judgement is
  sampled as an action is, within as many tokens.

  Args:
    form: how judgements are asked for.
    times: judgements of an episode.

  Raises:
    ValueError: no judgement.
  """
  if times < 1:
    raise ValueError(f'self_rewarding: times is {times}; give 1 or more.')

  def strategy(
    engine: engine_lib.Engine,
    env: base.Env,
    chat: chat_lib.Chat,
    tasks: Sequence[episode.Task],
    plan: strategies.Plan,
  ) -> list[episode.Episode]:
    """Multi-turn episodes, judged; as `strategies.multi_turn`."""
    made = strategies.multi_turn(engine, env, chat, tasks, plan)
    prompts = [_prompt(form, one, chat, plan.limits) for one in made]
    requests = [
      _request(ids, plan, place, i)
      for place, ids in enumerate(prompts)
      if isinstance(ids, list)
      for i in range(times)
    ]
    sampling = plan.sampling._replace(
      stop=chat.stop, stop_text=(), entropy=False, experts=False
    )
    said = iter(resume.generate(engine.generate, requests, sampling))
    verdicts = [
      [_read(form, next(said), chat) for _ in range(times)]
      if isinstance(ids, list)
      else [ids]
      for ids in prompts
    ]
    return [_rewarded(*each) for each in zip(made, verdicts)]

  return strategy


rubric = judged(judgements.rubric())
short = judged(judgements.short())


def _prompt(form, one, chat, limits) -> list[int] | verdict.Verdict:
  """The ids that ask for a judgement, or why there can be none."""
  if not episode.graded(one):
    return verdict.error(one.error)
  system, prompt = form.ask(one.task, one.exchanges)
  try:
    ids = chat.opening(episode.Task(one.task.id, prompt, {}, system))
  except chat_lib.UnfitText as error:
    return verdict.error(f'it cannot be shown to a judge: {error}')
  if len(ids) >= limits.context:
    return verdict.error(
      f'to be judged it takes {len(ids)} tokens, which leaves no room in a'
      f' context of {limits.context}; raise rollout.context'
    )
  return ids


def _request(ids, plan, place, index) -> engine_lib.Request:
  """The request of a judgement, whose randomness no turn has."""
  task, sample = divmod(place, plan.samples)
  limits = plan.limits
  return engine_lib.Request(
    tokens=tuple(ids),
    max_tokens=min(limits.turn_tokens, limits.context - len(ids)),
    path=(*plan.path, task, sample, limits.max_turns + index),
  )


def _read(form, said: engine_lib.Sample, chat) -> verdict.Verdict:
  if said.finish == engine_lib.LENGTH:
    return verdict.error('the judge came to no end')
  return form.read(chat.decode([int(i) for i in said.tokens]))


def _rewarded(
  one: episode.Episode, verdicts: Sequence[verdict.Verdict]
) -> episode.Episode:
  """The episode with the mean of its judgements, or without a grade."""
  if not episode.graded(one):
    return one
  score, _, why = judge.mean(verdicts)
  if score is None:
    return one._replace(status=episode.REWARD_ERROR, error=why)
  rewards = np.zeros_like(one.rewards)
  rewards[np.flatnonzero(one.mask)[-1]] = score
  extras = {**one.extras, episode.PAID: one.rewards}
  return one._replace(rewards=rewards, extras=extras)
