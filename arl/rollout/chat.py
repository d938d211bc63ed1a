"""Chat templates over an append-only row of ids.

A conversation is opened by the tokenizer's template once. After that, what the
policy sampled stays as it is, and only the template's text *between* turns is
encoded and appended. Nothing sampled is ever decoded and encoded again.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from arl import episode

_MARK = 'arl-turn-mark'


class Chat(NamedTuple):
  """How a model is spoken to, as functions over ids.

  Attributes:
    opening: Task -> the ids up to where the policy speaks.
    reply: observation text -> the ids to append after a sample that ended with
      a stop id, up to where the policy speaks again.
    action: action text -> the ids of a whole action, the stop id included;
      only for demonstrations, never for what was sampled.
    decode: sampled ids -> the text the environment sees, without the stop id.
    pieces: ids -> the text of each id, special ones included, for reports.
    stop: the ids that end a turn.
    tokenizer: whose chat this is, for those who speak to the model in lists of
      messages (`arl.rollout.templates`); None for a chat of no tokenizer.
    role: under which observations are shown.
  """

  opening: Callable[[episode.Task], list[int]]
  reply: Callable[[str], list[int]]
  action: Callable[[str], list[int]]
  decode: Callable[[Sequence[int]], str]
  pieces: Callable[[Sequence[int]], list[str]]
  stop: tuple[int, ...]
  tokenizer: Any = None
  role: str = 'tool'


class UnfitText(ValueError):
  """Text from outside that has no ids of its own."""


class SpecialText(UnfitText):
  """It would be encoded as a special token."""


def specials(tokenizer: Any) -> list[str]:
  """The special tokens of a tokenizer, as texts."""
  added = tokenizer.added_tokens_decoder.values()
  return sorted(
    {*tokenizer.all_special_tokens, *(t.content for t in added if t.special)}
  )


def digest(tokenizer: Any) -> str:
  """Of the vocabulary: equal for tokenizers that give texts the same ids."""
  text = json.dumps(sorted(tokenizer.get_vocab().items()))
  return hashlib.sha256(text.encode()).hexdigest()


def encode(tokenizer: Any, text: str) -> list[int]:
  """The ids of a template's text: nothing is added, markers are markers.

  Raises:
    UnfitText: the tokenizer cannot spell it.
  """
  try:
    return tokenizer.encode(text, add_special_tokens=False)
  except Exception as error:
    raise UnfitText(
      f'the tokenizer cannot encode {text[:80]!r} ({error}); replace the'
      ' characters that it does not know.'
    ) from error


def plain(tokenizer: Any, text: str) -> list[int]:
  """The ids of a text without a template, begun as the tokenizer begins one.

  Raises:
    ValueError: the tokenizer also ends it.
  """
  bare, ids = encode(tokenizer, text), tokenizer.encode(text)
  begun = [tokenizer.bos_token_id, *bare]
  if ids not in (bare, begun):
    raise ValueError(
      'the tokenizer puts more around a text than its bos_token; give ids.'
    )
  return ids


def clean(text: str, what: str, markers: Sequence[str]) -> str:
  """The text itself, which comes from outside.

  Args:
    text: to be shown to the model.
    what: names it in the message.
    markers: the special tokens of the tokenizer.

  Raises:
    SpecialText: it spells one of them.
  """
  for marker in markers:
    if marker in text:
      raise SpecialText(
        f'{what} contains {marker!r}, a special token of the tokenizer;'
        ' remove it from the text.'
      )
  return text


def _render(tokenizer, messages, prompt: bool) -> str:
  return tokenizer.apply_chat_template(
    messages, tokenize=False, add_generation_prompt=prompt
  )


def _between(tokenizer, role: str) -> tuple[str, str]:
  """The template's text around an observation that follows an action.

  Returns:
    What stands between the two, and what follows the observation up to the
    policy's next turn.

  Raises:
    ValueError: that text, or what stands before it, changes as the
      conversation goes on, so no suffix exists.
  """
  messages = [{'role': 'user', 'content': 'question'}]
  shown = _render(tokenizer, messages, prompt=True)
  middle, tail = '', ''
  for _ in range(2):
    messages += [
      {'role': 'assistant', 'content': _MARK},
      {'role': role, 'content': _MARK},
    ]
    before, shown = shown + _MARK, _render(tokenizer, messages, prompt=True)
    parts = shown.removeprefix(before).split(_MARK)
    same = not middle or parts == [middle, tail]
    if not shown.startswith(before) or len(parts) != 2 or not same:
      raise ValueError(
        'the chat template does not keep earlier turns as they were once a'
        f' {role!r} message follows, so turns cannot be appended; use a'
        ' template that keeps them.'
      )
    middle, tail = parts
  return middle, tail


def introduction(task: episode.Task, role: str) -> list[tuple[str, str, str]]:
  """What opens a task: (role, text, what it is) of each message."""
  texts = task.example
  if len(texts) % 2:
    raise ValueError(
      f'the example of task {task.id!r} has {len(texts)} texts; give a prompt,'
      ' then actions and observations in turn, an action last.'
    )
  roles = ['assistant' if i % 2 else role for i in range(len(texts))]
  roles[:1] = ['user'] * bool(texts)
  return [
    *([('system', task.system, 'the system message')] if task.system else []),
    *((role, text, 'the example') for role, text in zip(roles, texts)),
    ('user', task.prompt, 'the prompt'),
  ]


def chat(tokenizer: Any, *, observation_role: str = 'tool') -> Chat:
  """The chat of a tokenizer with a template and an end-of-turn token.

  Args:
    tokenizer: of `transformers`, with `chat_template` and `eos_token`.
    observation_role: the role under which observations are shown.

  Returns:
    The chat. Its functions raise SpecialText for text that spells a special
    token, and UnfitText for text that the tokenizer cannot spell.

  Raises:
    ValueError: no template, no end token, or a template that cannot append.
  """
  end = tokenizer.eos_token
  if not tokenizer.chat_template or not end:
    raise ValueError(
      'the tokenizer has no chat template or no eos_token; set both before'
      ' it is used for rollouts.'
    )
  middle, tail = _between(tokenizer, observation_role)
  if not middle.startswith(end):
    raise ValueError(
      f'the chat template follows an action with {middle!r}, not with the'
      f' eos_token {end!r}; set eos_token to what ends a turn.'
    )
  middle = middle.removeprefix(end)  # the sample ends with it
  markers = specials(tokenizer)

  def opening(task):
    messages = [
      {
        'role': role,
        'content': clean(text, f'{what} of task {task.id!r}', markers),
      }
      for role, text, what in introduction(task, observation_role)
    ]
    return encode(tokenizer, _render(tokenizer, messages, prompt=True))

  def reply(text):
    text = clean(text, 'the observation', markers)
    return encode(tokenizer, middle + text + tail)

  def action(text):
    text = clean(text, 'the action', markers)
    return [*encode(tokenizer, text), tokenizer.eos_token_id]

  def decode(ids):
    kept = [i for i in ids if i != tokenizer.eos_token_id]
    return tokenizer.decode(kept, skip_special_tokens=False)

  def pieces(ids):
    return [tokenizer.decode([i], skip_special_tokens=False) for i in ids]

  stop = (tokenizer.eos_token_id,)
  return Chat(
    opening, reply, action, decode, pieces, stop, tokenizer, observation_role
  )
