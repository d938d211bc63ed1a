"""Thinking that ends where the answer is already sure: DEER's early exit.

DEER (arXiv:2504.15895): wherever a thought turns, the policy is asked for its
answer on trial; how likely the tokens of that answer are says whether it needs
to think on. For evaluation alone: nothing is trained on what it makes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from arl.rollout import chat as chat_lib
from arl.rollout import costs, pieces, strategies
from arl.rollout import engine as engine_lib


class Exit(NamedTuple):
  """When thinking ends.

  Attributes:
    least: the confidence above which it ends; 1 for never.
    turns: texts at which a thought turns, where the answer is tried.
    asks: what the trial appends, to have the answer said.
    tokens: of a trial, at most.
    most: tokens of a thought, after which it ends.
    closed: ends a thought, and is what is forced.
  """

  least: float = 0.95
  turns: tuple[str, ...] = ('Wait', '\n\n')
  asks: str = '\n**Final Answer**\n\\boxed'
  tokens: int = 20
  most: int = 2048
  closed: str = '</think>'


AT_95 = Exit()


def early(how: Exit = AT_95) -> strategies.Strategy:
  """The strategy of DEER.

  The confidence is the geometric mean of the probabilities, at temperature 1,
  of the tokens of a greedy answer. A thought that ends by itself ends; where no
  text says that it turns, nothing is tried. The tokens of trials are told by
  the column `discarded`, and what is forced by `forced`.

  Args:
    how: when thinking ends.

  Raises:
    ValueError: a number that is out of its range, or no text to look for.
  """
  if not how.turns or not all(how.turns) or not 0 <= how.least <= 1:
    raise ValueError(
      f'deer: {how}; give texts at which a thought turns, and a least'
      ' confidence from 0 to 1.'
    )
  if how.tokens < 1 or how.most < 1:
    raise ValueError(f'deer: {how}; set tokens and most to 1 or more.')

  def strategy(engine, env, chat, tasks, plan):
    """Multi-turn episodes with `forced` and `discarded`.

    As `strategies.multi_turn`, and:

    Raises:
      ValueError: an engine that knows no text, or a tokenizer that cannot spell
        what is forced.
    """
    rows = pieces.started(env, chat, tasks, plan)
    while going := pieces.going(rows):
      thoughts = [_Thought(one, plan.limits) for one in going]
      while open_ := [one for one in thoughts if not one.finish]:
        _think(engine, chat, plan.sampling, open_, how)
      for one in thoughts:
        pieces.advance(one.steered, one.begins, one.finish, env, chat, plan)
    return [one.episode() for one in rows]

  strategy.tells = costs.steered  # type: ignore[attr-defined]
  strategy.evaluates = True  # type: ignore[attr-defined]
  return strategy


class _Thought:
  """The action that a row is making."""

  def __init__(self, steered: pieces.Steered, limits: strategies.Limits):
    self.steered, self.finish, self.over = steered, '', False
    self.asked = strategies.request(steered.row, limits, steered.turn)
    self.begins = len(steered.row.tokens)

  @property
  def made(self) -> list[int]:
    return self.steered.row.tokens[self.begins :]

  @property
  def left(self) -> int:
    return self.asked.max_tokens - len(self.made)

  def end(self, closing: Sequence[int]) -> None:
    """Ends the thought; where the marker has no room, by not stopping again."""
    if self.left > len(closing):
      self.steered.force(closing)
    self.over = True

  def request(self, tokens: Sequence[int] = ()) -> engine_lib.Request:
    """What is asked for next, behind further tokens."""
    return self.asked._replace(
      tokens=(*self.asked.tokens, *self.made, *tokens),
      max_tokens=self.left,
      path=(*self.asked.path, len(self.made)),
    )


def _think(engine, chat, sampling, open_: Sequence[_Thought], how) -> None:
  """Lets thoughts go on to where they turn; what is over, to its end."""
  stops = sampling._replace(stop=chat.stop)
  turning = stops._replace(stop_text=(*stops.stop_text, *how.turns))
  for over, rule in ((False, turning), (True, stops)):
    few = [one for one in open_ if one.over == over]
    asked = [one.request() for one in few]
    if not over:
      asked = [_no_longer(a, one, how) for a, one in zip(asked, few)]
    for one, sample in zip(few, pieces.ask(engine, asked, rule)):
      _take(one, sample, chat, stops.stop_text, how)
  thinking = [one for one in open_ if not one.finish and not one.over]
  _exit(engine, chat, stops, thinking, how)


def _no_longer(asked: engine_lib.Request, one: _Thought, how: Exit):
  """The request within what is left of the thought."""
  left = how.most - len(one.made)
  return asked._replace(max_tokens=min(asked.max_tokens, left))


def _take(one: _Thought, sample: engine_lib.Sample, chat, texts, how) -> None:
  one.steered.row.take(sample)
  said = chat.decode(one.made)
  last = sample.tokens[-1] in chat.stop or any(text in said for text in texts)
  if sample.finish == engine_lib.STOP and (one.over or last):
    one.finish = engine_lib.STOP
  elif not one.left:
    one.finish = engine_lib.LENGTH
  elif how.closed in said:
    one.over = True


def _exit(engine, chat, sampling, few: Sequence[_Thought], how: Exit) -> None:
  """Tries the answer; ends the thoughts of those that are sure of it."""
  asks = chat_lib.encode(chat.tokenizer, how.asks)
  closing = chat_lib.encode(chat.tokenizer, how.closed)
  tried = [one for one in few if one.left > len(asks)]
  requests = [
    one.request(asks)._replace(
      max_tokens=min(how.tokens, one.left - len(asks)), session=None
    )
    for one in tried
  ]
  greedy = sampling._replace(temperature=0.0, stop_text=(), entropy=False)
  for one, sample in zip(tried, pieces.ask(engine, requests, greedy)):
    one.steered.discard(len(sample.tokens))
    if min(float(np.exp(np.mean(sample.logp))), 1.0) > how.least:
      one.end(closing)
  for one in few:
    if not one.over and len(one.made) >= how.most:
      one.end(closing)


at_95 = early(AT_95)
