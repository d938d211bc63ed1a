"""Tools that a policy would not try: now and then one is chosen for it.

With the probability `tool_eps` an action begins with a call of a tool that is
drawn from those the environment tells of (`Env.tools`); the policy fills in the
arguments. The beginning is spelled as a syntax of `arl.envs.call_syntax` spells
it, up to where the arguments differ.

Two strategies say what becomes of what was forced. `masked` takes it for an
observation: nothing is learnt from it, and what follows has its log-prob behind
it. `mixed` takes it for an action of the behaviour that is the mixture of the
policy and of a forced call, and stores the log-prob under that mixture of every
token that could have been forced, whether it was or not: ratios to the behavior
are then exact, and an estimate that weighs by them is unbiased.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from arl.envs import call_syntax, calls
from arl.rollout import chat as chat_lib
from arl.rollout import costs, pieces, strategies
from arl.rollout import engine as engine_lib


def beginning(syntax: str, name: str) -> str:
  """The text that a call of a tool begins with, whatever its arguments."""
  write = call_syntax.SYNTAXES[syntax].write
  bare, filled = (
    write([calls.Call(name, given)]) for given in ({}, {'a': 'a'})
  )
  same = [left == right for left, right in zip(bare, filled)]
  return bare[: same.index(False) if False in same else len(same)]


def off_mask(syntax: str) -> strategies.Strategy:
  """The strategy whose forced tokens are nobody's action."""

  def take(one, forced, sample, chance, paths):
    del chance, paths
    if forced:
      one.force(forced)
    one.row.take(sample)

  return _strategy(syntax, take, scored=False)


def in_mixture(syntax: str) -> strategies.Strategy:
  """The strategy whose log-probs are those of the mixture.

  It has no entropies, which are those of the policy alone, and it scores what
  it forces, so its temperature is above 0.
  """

  def take(one, forced, sample, chance, paths):
    logp = mixture_logp(sample.tokens.tolist(), sample.logp, paths, chance)
    del forced
    one.row.take(sample._replace(logp=logp, entropy=None))

  strategy = _strategy(syntax, take, scored=True)
  strategy.lacks = frozenset({'rollout_entropy'})  # type: ignore[attr-defined]
  strategy.mixes = True  # type: ignore[attr-defined]
  return strategy


def mixture_logp(
  tokens: Sequence[int],
  logp: np.ndarray,
  beginnings: Sequence[Sequence[int]],
  chance: float,
) -> np.ndarray:
  """Log-probs of an action under the policy with forced beginnings, [n].

  With the probability `chance` an action begins with one of the beginnings, all
  as likely, and the policy goes on; otherwise it is the policy's alone. Of the
  first t tokens the probability is a sum over the ways to come by them, and a
  token's log-prob is the difference of two of its logarithms: (1 - chance) pi +
  chance / K for a whole beginning.

  Args:
    tokens: of the action.
    logp: under the policy, each given those before it, [n].
    beginnings: K of them, in ids.
    chance: of a forced one, in [0, 1).
  """
  logp = np.asarray(logp, np.float64)
  free = np.cumsum(logp)
  ways = [np.log1p(-chance) + free]
  if chance:
    each = np.log(chance / len(beginnings))
    ways += [each + _after(tokens, free, begun) for begun in beginnings]
  total = np.logaddexp.reduce(ways, axis=0)
  return np.diff(total, prepend=0.0).astype(np.float32)


def _after(tokens, free: np.ndarray, begun: Sequence[int]) -> np.ndarray:
  """Log-probs of the first tokens once a beginning is forced, [n]."""
  n = min(len(begun), len(tokens))
  same = np.array(tokens[:n]) == np.array(begun[:n])
  if np.all(same):
    rest = np.maximum(np.arange(len(tokens)), n - 1)
    return free[rest] - free[n - 1]
  made = np.full(len(tokens), -np.inf)
  made[: int(np.argmin(same))] = 0.0
  return made


def _strategy(
  syntax: str, take: Callable, *, scored: bool
) -> strategies.Strategy:
  """A strategy that forces; `take` appends an action to its row."""

  def strategy(engine, env, chat, tasks, plan, *, tool_eps: float):
    """Multi-turn episodes, some of whose calls were begun for the policy.

    As `strategies.multi_turn`, and:

    Raises:
      ValueError: an environment without tools, or a probability that is none.
    """
    begun = _beginnings(env, chat, syntax)
    if not 0 <= tool_eps < 1:
      raise ValueError(
        f'forced_tools: tool_eps is {tool_eps}; set it to 0 or more, below 1.'
      )
    sampling = plan.sampling._replace(stop=chat.stop)
    rows = pieces.started(env, chat, tasks, plan)
    while going := pieces.going(rows):
      drawn = [_draw(one, begun, plan.limits, tool_eps) for one in going]
      requests = [_request(one, made, plan) for one, made in zip(going, drawn)]
      samples = pieces.ask(engine, requests, sampling)
      if scored:
        samples = _joined(engine, going, drawn, samples, sampling.temperature)
      for one, made, sample in zip(going, drawn, samples):
        begins = len(one.row.tokens)
        take(one, made.forced, sample, made.chance, begun)
        pieces.advance(one, begins, sample.finish, env, chat, plan)
    return [one.episode() for one in rows]

  strategy.tells = costs.steered  # type: ignore[attr-defined]
  strategy.asks = frozenset({'tools'})  # type: ignore[attr-defined]
  return strategy


class _Drawn(NamedTuple):
  """What is forced in a turn, which may be nothing, and how likely that was."""

  forced: tuple[int, ...]
  chance: float


def _beginnings(env, chat, syntax: str) -> list[tuple[int, ...]]:
  if not env.tools:
    raise ValueError(
      'forced_tools: the environment tells of no tools to choose from; choose'
      ' one that does, or strategies.multi_turn.'
    )
  texts = [beginning(syntax, tool.name) for tool in env.tools]
  return [tuple(chat_lib.encode(chat.tokenizer, text)) for text in texts]


def _draw(one: pieces.Steered, begun, limits, chance: float) -> _Drawn:
  """By the row's own randomness; nothing where a beginning has no room."""
  asked = strategies.request(one.row, limits, one.turn)
  if max(map(len, begun)) >= asked.max_tokens:
    return _Drawn((), 0.0)
  rng = np.random.default_rng(asked.path)
  if rng.random() >= chance:
    return _Drawn((), chance)
  return _Drawn(begun[rng.integers(len(begun))], chance)


def _request(one: pieces.Steered, drawn: _Drawn, plan) -> engine_lib.Request:
  asked = strategies.request(one.row, plan.limits, one.turn)
  return asked._replace(
    tokens=(*asked.tokens, *drawn.forced),
    max_tokens=asked.max_tokens - len(drawn.forced),
  )


def _joined(
  engine, going, drawn, samples, temperature: float
) -> list[engine_lib.Sample]:
  """Samples with what was forced before them, by the policy's log-probs."""
  places = [i for i, made in enumerate(drawn) if made.forced]
  whole = [[*going[i].row.tokens, *drawn[i].forced] for i in places]
  scores = engine.score(whole, temperature) if whole else []
  made = list(samples)
  for i, logp in zip(places, scores, strict=True):
    forced, sample = drawn[i].forced, samples[i]
    version = np.repeat(sample.versions[:1], len(forced))
    made[i] = sample._replace(
      tokens=np.concatenate([np.array(forced, np.int32), sample.tokens]),
      logp=np.concatenate([logp[-len(forced) :], sample.logp]),
      versions=np.concatenate([version, sample.versions]),
    )
  return made


masked, mixed = off_mask('positional'), in_mixture('positional')
hermes_masked, hermes_mixed = off_mask('hermes'), in_mixture('hermes')
