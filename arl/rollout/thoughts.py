"""Actions that are sampled in slices, so that thinking can be stopped.

Thinking is what stands between an opening and a closing marker. After each
slice the policy's uncertainty so far decides whether it may think on; where it
may not, the closing marker is forced and the policy goes on from there.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import pieces, strategies

Part = engine_lib.Sample | tuple[int, ...]  # sampled, or forced
_TAIL = 16  # tokens at the end of a prompt that may open a thought


class Stop(NamedTuple):
  """When thinking is stopped.

  Attributes:
    window: tokens of a slice, over which the running mean of the entropy is
      compared.
    threshold: a smaller change ends the thought, in nats; 0 for none.
    most: tokens of a thought; it is looked at after each slice.
    opened: begins a thought, in the action or at the end of the prompt.
    closed: ends it, and is what is forced.
  """

  window: int = 32
  threshold: float = 0.02
  most: int = 450
  opened: str = '<think>'
  closed: str = '</think>'


class Said(NamedTuple):
  """An action.

  Attributes:
    parts: of it, in order.
    finish: STOP or LENGTH.
    entropy: the mean over its sampled tokens, nats.
    sampled: how many those are.
  """

  parts: tuple[Part, ...]
  finish: str
  entropy: float
  sampled: int


Speak = Callable[[Sequence[strategies.Live], int], list[Said]]


def whole(
  engine: engine_lib.Engine,
  sampling: engine_lib.Sampling,
  limits: strategies.Limits,
) -> Speak:
  """(rows, which try) -> their actions, each sampled at once."""

  def speak(rows, number):
    requests = [pieces.again(row, limits, number) for row in rows]
    samples = pieces.ask(engine, requests, sampling)
    return [_said([sample], sample.finish) for sample in samples]

  return speak


def sliced(
  engine: engine_lib.Engine,
  chat: chat_lib.Chat,
  sampling: engine_lib.Sampling,
  limits: strategies.Limits,
  stop: Stop,
) -> Speak:
  """(rows, which try) -> their actions, whose thoughts are stopped.

  Args:
    engine: the sampler.
    chat: how ids become text.
    sampling: with entropies.
    limits: of the rows. What is forced counts as tokens of the turn.
    stop: when thinking is stopped.

  Raises:
    ValueError: a number that is out of its range, or a marker that the
      tokenizer cannot spell.
  """
  if stop.window < 1 or stop.most < 1 or not stop.threshold >= 0:
    raise ValueError(
      f'{stop}: set window and most to 1 or more, threshold to 0 or more.'
    )
  closing = tuple(chat_lib.encode(chat.tokenizer, stop.closed))

  def speak(rows, number):
    spoken = [_Spoken(pieces.again(row, limits, number)) for row in rows]
    while going := [one for one in spoken if not one.finish]:
      requests = [one.rest(stop.window) for one in going]
      samples = pieces.ask(engine, requests, sampling)
      for one, sample in zip(going, samples):
        one.take(sample)
        one.consider(stop, closing, chat.decode)
    return [_said(one.parts, one.finish) for one in spoken]

  return speak


class _Spoken:
  """An action in the making."""

  def __init__(self, request: engine_lib.Request):
    self.request, self.finish = request, ''
    self.parts: list[Part] = []
    self.ids: list[int] = []
    self.over = False  # no thought is left to stop

  @property
  def left(self) -> int:
    return self.request.max_tokens - len(self.ids)

  def rest(self, window: int) -> engine_lib.Request:
    """The next slice, or all that is left; its randomness is its own."""
    if not self.ids:
      return self.request._replace(max_tokens=min(window, self.left))
    return self.request._replace(
      tokens=(*self.request.tokens, *self.ids),
      max_tokens=self.left if self.over else min(window, self.left),
      path=(*self.request.path, len(self.ids)),
    )

  def take(self, sample: engine_lib.Sample) -> None:
    self.parts.append(sample)
    self.ids += sample.tokens.tolist()
    if sample.finish == engine_lib.STOP or not self.left:
      self.finish = sample.finish

  def consider(self, stop: Stop, closing: tuple[int, ...], decode) -> None:
    """Forces the end of a thought that has gone on for long enough."""
    if self.finish or self.over:
      return
    said = decode(self.ids)
    self.over = stop.closed in said
    prompt = decode(self.request.tokens[-_TAIL:]).rstrip()
    thinks = stop.opened in said or prompt.endswith(stop.opened)
    if self.over or not thinks or self.left <= len(closing):
      return
    rests = unmoved(_entropies(self.parts), stop.window, stop.threshold)
    if rests or len(self.ids) >= stop.most:
      self.parts.append(closing)
      self.ids += closing
      self.over = True


def unmoved(entropy: np.ndarray, window: int, threshold: float) -> bool:
  """Whether the running mean of an entropy has come to rest.

  It has where it changed by less than the threshold over the last `window`
  tokens, of which there are twice as many at least.

  Args:
    entropy: of each token so far, [n].
    window: tokens.
    threshold: in nats.
  """
  n = len(entropy)
  if n < 2 * window:
    return False
  change = np.mean(entropy) - np.mean(entropy[: n - window])
  return bool(abs(change) < threshold)


def _entropies(parts: Sequence[Part]) -> np.ndarray:
  """Those of the sampled tokens.

  Raises:
    ValueError: the engine tells none.
  """
  told = []
  for part in parts:
    if isinstance(part, engine_lib.Sample):
      if part.entropy is None or not np.all(np.isfinite(part.entropy)):
        raise ValueError(
          't2po: the engine tells no entropies, by which it decides; choose an'
          ' engine that does, or strategies.multi_turn.'
        )
      told.append(part.entropy)
  return np.concatenate(told)


def _said(parts: Sequence[Part], finish: str) -> Said:
  entropy = _entropies(parts)
  return Said(tuple(parts), finish, float(np.mean(entropy)), len(entropy))
