"""Fields of a request: read, held to what means nothing, or refused.

A field that changes what is sampled and is not known would be trained on as if
it had not been there, so nothing is ignored.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from arl import names
from arl.rollout import engine, tickets


class Refused(ValueError):
  """A request that is not served; it says why."""

  def __init__(self, message: str, status: int = 400):
    super().__init__(message)
    self.status = status


class Text(NamedTuple):
  """What becomes of the sampled ids as text.

  Attributes:
    stop: strings that end it.
    skip: whether special tokens are left out.
    trim: whether what it stopped at is left out.
  """

  stop: tuple[str, ...] = ()
  skip: bool = True
  trim: bool = True


class Shown(NamedTuple):
  """What an answer tells beside the ids.

  Attributes:
    logprob: the log-probs of the tokens.
    start: the first token of the prompt whose log-prob is told; -1 for none.
    top: how many of the likeliest ids.
    watched: the log-probs of these ids; None for none.
    text: the text of each id in the log-probs.
    prompt: the ids of the prompt.
    mask: which ids each token was sampled from.
    experts: those of each token, from this one on; -1 for none.
    entropy: of what each token was sampled from.
  """

  logprob: bool = False
  start: int = -1
  top: int = 0
  watched: tuple[int, ...] | None = None
  text: bool = False
  prompt: bool = False
  mask: bool = False
  experts: int = -1
  entropy: bool = False


class Job(NamedTuple):
  """One sample to make, or with max_tokens 0 a prompt to score."""

  rid: str
  request: engine.Request
  sampling: engine.Sampling
  wanted: tickets.Wanted
  text: Text
  shown: Shown


class Limits(NamedTuple):
  """What a server can do.

  Attributes:
    vocab: how many ids its model knows.
    context: tokens of the longest sequence.
    end: the ids that end a sample by themselves.
    encode: text -> ids; None without a tokenizer.
    fresh: () -> a path that nothing was sampled with.
  """

  vocab: int
  context: int
  end: tuple[int, ...]
  encode: Any
  fresh: Any


def check_known(
  what: str, given: Any, used: set[str], neutral: Mapping[str, tuple]
) -> None:
  """Refuses fields that are unknown or ask for what cannot be done.

  Args:
    what: names the object in the message.
    given: the object.
    used: fields that are read.
    neutral: fields that may only have these values, or null.

  Raises:
    Refused: naming the first such field.
  """
  if not isinstance(given, dict):
    raise Refused(f'{what} should be an object, not {given!r:.80}.')
  for name, value in given.items():
    if name in used or value is None and name in neutral:
      continue
    if name not in neutral:
      known = sorted({*used, *neutral})
      raise Refused(f'unknown field {name!r}{names.suggest(name, known)}')
    if not any(value == one for one in neutral[name]):
      raise Refused(
        f'{name} = {value!r:.80} cannot be honoured by this server; leave it'
        ' out.'
      )


def take(given: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
  """A field of a type, or the default where it is absent or null.

  Raises:
    Refused: it is of another type.
  """
  value = given.get(name)
  if value is None:
    return default
  if kind is float and type(value) is int:
    value = float(value)
  if type(value) is not kind:
    raise Refused(f'{name} should be {kind.__name__}, not {value!r:.80}.')
  return value


def ids(given: Mapping[str, Any], name: str, vocab: int) -> tuple[int, ...]:
  """A field that lists ids of the vocabulary; () where it is absent."""
  value = given.get(name)
  return () if value is None else id_list(name, value, vocab)


def id_list(name: str, value: Any, vocab: int) -> tuple[int, ...]:
  """Ids of the vocabulary.

  Raises:
    Refused: they are none.
  """
  if not isinstance(value, list) or not {int}.issuperset(map(type, value)):
    raise Refused(f'{name} must be a list of ids; got {value!r:.80}.')
  if value and not (min(value) >= 0 and max(value) < vocab):
    wrong = next(id for id in value if not 0 <= id < vocab)
    raise Refused(
      f'{name} holds id {wrong}, but the model knows ids 0 to {vocab - 1}; use'
      ' the tokenizer made for this model.'
    )
  return tuple(value)


def encode(text: Any, limits: Limits) -> tuple[int, ...]:
  """The ids of a prompt given as text.

  Raises:
    Refused: it is no text, there is no tokenizer, or it cannot spell it.
  """
  if not isinstance(text, str):
    raise Refused(f'text should be str, not {text!r:.80}.')
  if limits.encode is None:
    raise Refused(
      'the server runs without a tokenizer; send input_ids, or start it'
      ' without --skip_tokenizer_init.'
    )
  try:
    return tuple(limits.encode(text))
  except Exception as error:
    raise Refused(f'the tokenizer cannot encode it: {error}') from error
