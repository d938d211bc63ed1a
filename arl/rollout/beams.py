"""Diverse beam search over the tokens of each turn; for evaluation alone.

Diverse beam search (arXiv:1610.02424): the samples of a task are groups of
beams that advance together, and a group pays for each token that an earlier
group has chosen at the same place. Ours: the candidates of a beam are a few
samples of its next token, not the whole vocabulary, since an engine tells of
what it samples and of nothing else; with a temperature of 0 there is one.

What it returns is no sample of any policy, so it has no log-probs, and nothing
can be learnt from it by a policy gradient.
"""

from collections.abc import Sequence
from typing import NamedTuple

from arl.rollout import engine as engine_lib
from arl.rollout import pieces, strategies


class Beam(NamedTuple):
  """A beginning of an action.

  Attributes:
    tokens: of it.
    logp: of all of it.
    penalty: for what earlier groups chose as well.
    done: whether it has ended.
  """

  tokens: tuple[int, ...] = ()
  logp: float = 0.0
  penalty: float = 0.0
  done: bool = False

  @property
  def score(self) -> float:
    return self.logp - self.penalty


def search(
  width: int, candidates: int, *, weight: float = 0.5
) -> strategies.Strategy:
  """The strategy that searches.

  Each turn of each sample is a search of its own group, in which the samples
  before it in the task are the earlier groups. The best beam is played.

  Args:
    width: beams of a group.
    candidates: samples of a beam's next token.
    weight: what a token that an earlier group chose costs, the paper's lambda.

  Raises:
    ValueError: a number that is out of its range.
  """
  if width < 1 or candidates < 1 or not weight >= 0:
    raise ValueError(
      f'beams.search: width {width}, candidates {candidates}, weight {weight};'
      ' set the counts to 1 or more, the weight to 0 or more.'
    )

  def strategy(engine, env, chat, tasks, plan):
    """Multi-turn episodes without log-probs.

    As `strategies.multi_turn`, and:

    Raises:
      ValueError: texts that end an action, which beams of tokens cannot see.
    """
    if plan.sampling.stop_text:
      raise ValueError(
        f'beams.search: {plan.sampling.stop_text} may be several tokens, of'
        " which a beam grows by one; set config.rollout.stop_text to ''."
      )
    sampling = plan.sampling._replace(stop=chat.stop, entropy=False)
    rows = pieces.started(env, chat, tasks, plan)
    while going := pieces.going(rows):
      asked = [strategies.request(x.row, plan.limits, x.turn) for x in going]
      best = _searched(engine, asked, sampling, width, candidates, weight)
      for one, beam in zip(going, best):
        begins = len(one.row.tokens)
        one.row.write(beam.tokens)
        finish = engine_lib.STOP if beam.done else engine_lib.LENGTH
        pieces.advance(one, begins, finish, env, chat, plan)
    return [one.row.episode() for one in rows]

  strategy.evaluates = True  # type: ignore[attr-defined]
  return strategy


def _searched(
  engine, asked, sampling, width: int, candidates: int, weight: float
) -> list[Beam]:
  """The best beam of each request; those of one task lie together."""
  groups = [[Beam()] for _ in asked]
  for place in range(max(each.max_tokens for each in asked)):
    open_ = [
      (i, j, beam)
      for i, beams in enumerate(groups)
      for j, beam in enumerate(beams)
      if not beam.done and place < asked[i].max_tokens
    ]
    if not open_:
      break
    requests = [
      asked[i]._replace(
        tokens=(*asked[i].tokens, *beam.tokens),
        max_tokens=1,
        path=(*asked[i].path, place, j, k),
        session=None,
      )
      for i, j, beam in open_
      for k in range(candidates)
    ]
    samples = pieces.ask(engine, requests, sampling)
    grown = [
      [b for b in beams if b.done or place >= each.max_tokens]
      for each, beams in zip(asked, groups)
    ]
    for number, (i, _, beam) in enumerate(open_):
      few = samples[number * candidates : (number + 1) * candidates]
      grown[i] += _longer(beam, few)
    groups = _pruned(asked, grown, width, weight, place)
  return [max(beams, key=lambda beam: beam.score) for beams in groups]


def _longer(beam: Beam, samples: Sequence[engine_lib.Sample]) -> list[Beam]:
  """The beam with each different token that was sampled."""
  found = {int(s.tokens[0]): s for s in samples}
  return [
    beam._replace(
      tokens=(*beam.tokens, token),
      logp=beam.logp + float(sample.logp[0]),
      done=sample.finish == engine_lib.STOP,
    )
    for token, sample in found.items()
  ]


def _pruned(
  asked, grown: Sequence[Sequence[Beam]], width: int, weight: float, place: int
) -> list[list[Beam]]:
  """The best beams of each group, after what earlier groups chose is paid for.

  The earlier groups are those of the same task: their requests have the same
  path but for the sample and the turn.
  """
  made: list[list[Beam]] = []
  chosen: dict[tuple[int, ...], list[int]] = {}
  for request, beams in zip(asked, grown):
    used = chosen.setdefault(tuple(request.path[:-2]), [])
    paid = [
      b._replace(penalty=b.penalty + weight * used.count(b.tokens[place]))
      if len(b.tokens) > place
      else b
      for b in beams
    ]
    kept = sorted(paid, key=lambda b: -b.score)[:width]
    made.append(kept)
    used += [b.tokens[place] for b in kept if len(b.tokens) > place]
  return made


four = search(2, 4)
