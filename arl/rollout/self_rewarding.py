"""Strategies in which the policy judges its own episodes: self-rewarding.

arXiv:2401.10020. What the policy did is shown to the same engine, with the
weights that did it, and it says how much of five points that deserves; this
takes the place of what the environment paid. Pairs of it are those of
`pairs.best_against_worst`, learnt by `preference.dpo`.
"""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.rewards import judge, judgements, verdict
from arl.rollout import asides, strategies


def judged(form: judgements.Form, *, times: int = 3) -> strategies.Strategy:
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

  def strategy(engine, env, chat, tasks, plan):
    """Multi-turn episodes, judged; as `strategies.multi_turn`."""
    made = strategies.multi_turn(engine, env, chat, tasks, plan)
    asked = [_asked(form, one) if episode.graded(one) else None for one in made]
    said = asides.ask(engine, chat, plan, asked, times)
    return [_rewarded(form, *each) for each in zip(made, said)]

  return strategy


rubric = judged(judgements.rubric())
short = judged(judgements.short())


def _asked(form: judgements.Form, one: episode.Episode) -> episode.Task:
  system, prompt = form.ask(one.task, one.exchanges)
  return episode.Task(one.task.id, prompt, {}, system)


def _rewarded(
  form: judgements.Form, one: episode.Episode, said: Sequence[asides.Said]
) -> episode.Episode:
  """The episode with the mean of its judgements, or without a grade."""
  if not said:
    return one
  score, _, why = judge.mean(
    [verdict.error(x.error) if x.error else form.read(x.text) for x in said]
  )
  if score is None:
    return one._replace(status=episode.REWARD_ERROR, error=why)
  rewards = np.zeros_like(one.rewards)
  rewards[np.flatnonzero(one.mask)[-1]] = score
  extras = {**one.extras, episode.PAID: one.rewards}
  return one._replace(rewards=rewards, extras=extras)
