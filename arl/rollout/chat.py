"""Chat templates over an append-only row of ids.

A conversation is opened by the tokenizer's template once. After that, what the
policy sampled stays as it is, and only the template's text *between* turns is
encoded and appended. Nothing sampled is ever decoded and encoded again.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from arl import episode

_MARK = 'arl-turn-mark'


class Chat(NamedTuple):
  """How a model is spoken to, as functions over ids.

  Attributes:
    opening: Task -> the ids up to where the policy speaks.
    reply: (observation text, whether the sample ended with a stop id) -> the
      ids to append after a sample, up to where the policy speaks again.
    action: action text -> the ids of a whole action, the stop id included;
      only for demonstrations, never for what was sampled.
    decode: sampled ids -> the text the environment sees, without the stop id.
    pieces: ids -> the text of each id, special ones included, for reports.
    stop: the ids that end a turn.
  """

  opening: Callable[[episode.Task], list[int]]
  reply: Callable[[str, bool], list[int]]
  action: Callable[[str], list[int]]
  decode: Callable[[Sequence[int]], str]
  pieces: Callable[[Sequence[int]], list[str]]
  stop: tuple[int, ...]


class SpecialText(ValueError):
  """Text from outside that would be encoded as a special token."""


def _render(tokenizer, messages, prompt: bool) -> str:
  return tokenizer.apply_chat_template(
    messages, tokenize=False, add_generation_prompt=prompt
  )


def _between(tokenizer, role: str) -> tuple[str, str, str]:
  """The template's text around an observation that follows a sample.

  Returns:
    What closes the assistant's turn, what precedes the observation, and what
    follows it up to the policy's next turn.

  Raises:
    ValueError: the template rewrites earlier turns, so no suffix exists.
  """
  asked = [
    {'role': 'user', 'content': 'question'},
    {'role': 'assistant', 'content': _MARK},
  ]
  told = [*asked, {'role': role, 'content': _MARK}]
  before = _render(tokenizer, asked, prompt=False)
  after = _render(tokenizer, told, prompt=True)
  if not after.startswith(before) or after.count(_MARK) != 2:
    raise ValueError(
      f'the chat template renders earlier turns anew once a {role!r} message'
      ' follows, so turns cannot be appended; use a template that keeps them.'
    )
  closing = before[before.index(_MARK) + len(_MARK) :]
  head, tail = after[len(before) :].split(_MARK)
  return closing, head, tail


def chat(tokenizer: Any, *, observation_role: str = 'tool') -> Chat:
  """The chat of a tokenizer with a template and an end-of-turn token.

  Args:
    tokenizer: of `transformers`, with `chat_template` and `eos_token`.
    observation_role: the role under which observations are shown.

  Raises:
    ValueError: no template, no end token, or a template that cannot append.
  """
  end = tokenizer.eos_token
  if not tokenizer.chat_template or not end:
    raise ValueError(
      'the tokenizer has no chat template or no eos_token; set both before'
      ' it is used for rollouts.'
    )
  closing, head, tail = _between(tokenizer, observation_role)
  if not closing.startswith(end):
    raise ValueError(
      f'the chat template ends an assistant turn with {closing!r}, not with'
      f' the eos_token {end!r}; set eos_token to what ends a turn.'
    )
  specials = sorted(tokenizer.all_special_tokens)

  def encode(text):
    return tokenizer.encode(text, add_special_tokens=False)

  def clean(text, what):
    for special in specials:
      if special in text:
        raise SpecialText(
          f'{what} contains {special!r}, a special token of the tokenizer;'
          ' remove it from the text.'
        )
    return text

  def opening(task):
    messages = [{'role': 'user', 'content': clean(task.prompt, 'the prompt')}]
    if task.system:
      system = {'role': 'system', 'content': clean(task.system, 'the prompt')}
      messages.insert(0, system)
    return encode(_render(tokenizer, messages, prompt=True))

  def reply(text, stopped):
    text = head + clean(text, 'the observation') + tail
    return encode((closing[len(end) :] if stopped else closing) + text)

  def action(text):
    return [*encode(clean(text, 'the action')), tokenizer.eos_token_id]

  def decode(ids):
    kept = [i for i in ids if i != tokenizer.eos_token_id]
    return tokenizer.decode(kept, skip_special_tokens=False)

  def pieces(ids):
    return [tokenizer.decode([i], skip_special_tokens=False) for i in ids]

  stop = (tokenizer.eos_token_id,)
  return Chat(opening, reply, action, decode, pieces, stop)
