"""Rollouts controlled by how uncertain the policy is: T2PO's.

T2PO (arXiv:2605.02178) intervenes at two levels. A turn about which the policy
is as uncertain as about the one before is taken for one more step on the spot,
and is sampled again before the environment sees it. Inside of a turn, thinking
ends once its uncertainty no longer moves, or at a cap.

Of the turn's tries the last is played and recorded, with the log-probs that it
was sampled with; the others are not trained on, and the column `discarded`
tells their tokens. Choosing among samples tilts the behaviour, for which no
correction is known: `resample_frac` says how often. The end of thinking is
forced, so it is off the mask (the column `forced`), and every other token keeps
the log-prob under the context that it was sampled in.
"""

from collections.abc import Sequence
from typing import NamedTuple

from arl.rollout import costs, pieces, strategies, thoughts
from arl.rollout import engine as engine_lib


class Turns(NamedTuple):
  """When a turn is sampled again.

  Attributes:
    eta: a turn whose mean entropy differs from that of the turn before by less,
      but does differ, is sampled again; nats.
    tries: the most further samples of a turn.
  """

  eta: float = 0.3
  tries: int = 2


AGAIN, ONCE = Turns(), Turns(tries=0)


def controlled(
  turn: Turns = AGAIN, thought: thoughts.Stop | None = None
) -> strategies.Strategy:
  """The strategy of T2PO; by its names at the end of this file.

  Args:
    turn: when a turn is sampled again. The first of an episode never is.
    thought: when thinking is stopped; None for never.

  Raises:
    ValueError: a number that is out of its range.
  """
  if not turn.eta >= 0 or turn.tries < 0:
    raise ValueError(f't2po: {turn}; set eta and tries to 0 or more.')

  def strategy(engine, env, chat, tasks, plan):
    """Multi-turn episodes with `forced` and `discarded`.

    As `strategies.multi_turn`, and:

    Raises:
      ValueError: an engine without entropies, or a tokenizer that cannot spell
        the end of a thought.
    """
    sampling = plan.sampling._replace(entropy=True, stop=chat.stop)
    speak = thoughts.whole(engine, sampling, plan.limits)
    if thought:
      speak = thoughts.sliced(engine, chat, sampling, plan.limits, thought)
    rows = pieces.started(env, chat, tasks, plan)
    before: dict[int, float] = {}  # by row, the mean entropy of its last turn
    while going := pieces.going(rows):
      for one, said in zip(going, _said(going, before, speak, turn)):
        begins = len(one.row.tokens)
        for part in said.parts:
          _take(one, part)
        before[id(one)] = said.entropy
        pieces.advance(one, begins, said.finish, env, chat, plan)
    return [one.episode() for one in rows]

  strategy.tells = costs.steered  # type: ignore[attr-defined]
  return strategy


def _take(one: pieces.Steered, part: thoughts.Part) -> None:
  if isinstance(part, engine_lib.Sample):
    one.row.take(part)
  else:
    one.force(part)


def _said(
  going: Sequence[pieces.Steered], before, speak, turn: Turns
) -> list[thoughts.Said]:
  """The action that each row plays, after what was thrown away."""
  said = speak([one.row for one in going], 0)
  for number in range(1, turn.tries + 1):
    again = [
      place
      for place, one in enumerate(going)
      if near(said[place].entropy, before.get(id(one)), turn.eta)
    ]
    if not again:
      break
    for place in again:
      going[place].discard(said[place].sampled)
    new = speak([going[place].row for place in again], number)
    for place, made in zip(again, new):
      said[place] = made
  return said


def near(entropy: float, before: float | None, eta: float) -> bool:
  """Whether a turn is as uncertain as the one before, and not exactly so.

  Args:
    entropy: its mean over the tokens of the turn.
    before: that of the turn before; None for the first.
    eta: how near.
  """
  return before is not None and 0 < abs(entropy - before) < eta


turns = controlled()
thinking = controlled(ONCE, thoughts.Stop())
both = controlled(AGAIN, thoughts.Stop())
