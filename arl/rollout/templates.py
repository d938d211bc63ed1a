"""Chat templates over lists of messages: prompts that keep what was sampled.

A prompt is what the tokenizer's template prints for the whole conversation, but
where that is what the policy sampled, the sampled ids stand themselves and only
the text around them is encoded. So each prompt extends the ids of the one
before, unless the template prints an earlier turn in another way than it was
sampled (it strips thoughts, merges messages, drops an empty wrapper): then the
prompt begins anew at that turn, which is what the model will be given when it
is used.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from arl.envs import calls
from arl.rollout import chat
from arl.rollout import messages as messages_lib

_MARK = 'arl-turn-mark'
_THINK = ('<think>', '</think>')

Read = Callable[[str], calls.Reply]


class Template(NamedTuple):
  """What a tokenizer's template does, found out by differencing.

  Attributes:
    tokenizer: of `transformers`, with `chat_template` and `eos_token`.
    header: what opens a turn of the assistant.
    opening: what the template adds to it where the policy speaks, such as the
      tag of a thought, or ''.
    calls: whether it prints `tool_calls`; else they are written as text.
    specials: the tokenizer's special tokens, as texts.
  """

  tokenizer: Any
  header: str
  opening: str
  calls: bool
  specials: Sequence[str]

  @property
  def thinking(self) -> bool:
    """Whether the policy speaks from within a thought."""
    start, end = (self.opening.rfind(tag) for tag in _THINK)
    return start > end

  @property
  def stop(self) -> tuple[int, ...]:
    """The ids that end a turn."""
    return (self.tokenizer.eos_token_id,)

  def decode(self, ids: Sequence[int]) -> str:
    """The text of sampled ids, without the id that ends a turn."""
    kept = [i for i in ids if i != self.tokenizer.eos_token_id]
    return self.tokenizer.decode(kept, skip_special_tokens=False)

  def pieces(self, ids: Sequence[int]) -> list[str]:
    """The text of each id, special ones included."""
    return [self.tokenizer.decode([i], skip_special_tokens=False) for i in ids]


class Unfit(ValueError):
  """Messages that a template does not print."""


class Sampled(NamedTuple):
  """What the policy sampled for one message.

  Attributes:
    ids: all of them, the one that ended the turn included.
    text: without the token that ends a turn.
    ended: whether such a token is the last of the ids.
  """

  ids: Sequence[int]
  text: str
  ended: bool


def of(tokenizer: Any) -> Template:
  """The template of a tokenizer.

  Raises:
    ValueError: there is none, or it does not tell where the policy speaks.
  """
  if not tokenizer.chat_template or not tokenizer.eos_token:
    raise ValueError(
      'the tokenizer has no chat template or no eos_token; set both before'
      ' it is used for rollouts.'
    )
  specials = chat.specials(tokenizer)
  user = {'role': 'user', 'content': 'question'}
  said = {'role': 'assistant', 'content': _MARK}
  asked = _render(tokenizer, [user], None, prompt=False)
  asks = _render(tokenizer, [user], None, prompt=True)
  answered = _render(tokenizer, [user, said, user], None, prompt=False)
  before, _, after = answered.partition(_MARK)
  header = before.removeprefix(asked)
  opening = asks.removeprefix(asked + header)
  marked = any(special in header for special in specials)
  found = before.startswith(asked) and asks.startswith(asked + header)
  if not found or not marked or not after.startswith(tokenizer.eos_token):
    raise ValueError(
      'the chat template does not print a turn of the assistant as a header'
      f' with a special token, the text and the eos_token: {answered!r}; use a'
      ' template that does, or set eos_token to what ends a turn.'
    )
  made = Template(tokenizer, header, opening, _shows_calls(tokenizer), specials)
  bos, ids = tokenizer.bos_token_id, chat.encode(tokenizer, asks)
  if bos is not None and bos != tokenizer.eos_token_id and ids.count(bos) > 1:
    raise ValueError(
      f'the chat template prints {tokenizer.bos_token!r} more than once; a'
      ' sequence begins once.'
    )
  return made


def _render(tokenizer, messages, tools, prompt) -> str:
  return tokenizer.apply_chat_template(
    list(messages), tools=tools, tokenize=False, add_generation_prompt=prompt
  )


def _shows_calls(tokenizer) -> bool:
  function = {'name': _MARK, 'arguments': {'key': 'value'}}
  call = {'type': 'function', 'id': 'abcdefghi', 'function': function}
  messages = [
    {'role': 'user', 'content': 'question'},
    {'role': 'assistant', 'content': '', 'tool_calls': [call]},
    {'role': 'tool', 'content': 'answer', 'tool_call_id': 'abcdefghi'},
  ]
  try:
    return _MARK in _render(tokenizer, messages, None, prompt=False)
  except Exception:
    return False


def check_clean(
  template: Template,
  messages: Sequence[messages_lib.Message],
  sampled: Sequence[Sampled | None],
  tools: Any,
) -> None:
  """Refuses special tokens in what the policy did not say itself.

  Raises:
    SpecialText: naming the message and the token.
  """
  for i, (message, said) in enumerate(zip(messages, sampled)):
    if said is None:
      for text in messages_lib.texts(message):
        chat.clean(text, f'messages[{i}]', template.specials)
  for text in messages_lib.texts(tools or ()):
    chat.clean(text, 'tools', template.specials)


def prompt(
  template: Template,
  messages: Sequence[messages_lib.Message],
  sampled: Sequence[Sampled | None],
  *,
  tools: Any,
  read: Read,
  write: Callable[[Sequence[calls.Call]], str],
) -> list[int]:
  """The ids of a conversation, up to where the policy speaks.

  Args:
    template: of the tokenizer.
    messages: as `messages.read` gives them.
    sampled: what the policy sampled for each message; None for those that come
      from outside.
    tools: as in the OpenAI format, or None.
    read: text -> the calls in it, to see if a turn says what was sampled.
    write: calls -> text, for a template that prints none.

  Raises:
    SpecialText, UnfitText: text from outside that has no ids of its own.
    Unfit: the template refuses the messages; it says why.
  """
  check_clean(template, messages, sampled, tools)
  shown = [
    _shown(template, message, said, read, write)
    for message, said in zip(messages, sampled)
  ]
  try:
    text = _render(template.tokenizer, shown, tools or None, prompt=True)
  except Exception as error:
    raise Unfit(f'the chat template refuses this: {error}') from error
  said = [s for m, s in zip(messages, sampled) if m['role'] == 'assistant']
  return _spliced(template, text, said, read)


def _spliced(
  template: Template, text: str, said: Sequence[Sampled | None], read: Read
) -> list[int]:
  """The ids of a printed conversation, with what was sampled for its turns.

  Args:
    template: what printed it.
    text: the conversation.
    said: what was sampled for each turn of the assistant, or None.
    read: finds calls in a text.
  """
  turns = _turns(template, text)
  if len(turns) != len(said) + 1:
    said = []  # it drops, adds or merges turns: all is text
  ids: list[int] = []
  at, end = 0, template.tokenizer.eos_token
  for one, (begin, stop) in zip(said, turns):
    start = begin + len(template.opening)
    opened = text.startswith(template.opening, begin)
    if one and opened and _same(one.text, text[start:stop], read):
      ids += _encode(template, text[at:start], bool(at))
      ids += one.ids
      at = stop + len(end) * one.ended
  return ids + _encode(template, text[at:], bool(at))


def _shown(template, message, sampled, read, write) -> messages_lib.Message:
  """The message as the template gets it: a sampled one in its own words."""
  made = {**message}
  if sampled is not None:
    made.pop('reasoning_content', None)
    reply, listed = read(sampled.text), made.get('tool_calls', ())
    found = sum(isinstance(call, calls.Call) for call in reply.calls)
    whole = not listed or not template.calls or found != len(listed)
    made['content'] = sampled.text if whole else reply.rest
    if whole:
      made.pop('tool_calls', None)
  elif made.get('tool_calls') and not template.calls:
    written = write(
      [
        calls.Call(call['function']['name'], call['function']['arguments'])
        for call in made.pop('tool_calls')
      ]
    )
    made['content'] = '\n'.join(filter(None, [made['content'], written]))
  return made


def _turns(template: Template, text: str) -> list[tuple[int, int]]:
  """From where to where each of the assistant's turns is, the next included."""
  made, at = [], text.find(template.header)
  while at >= 0:
    start = at + len(template.header)
    stop = text.find(template.tokenizer.eos_token, start)
    stop = len(text) if stop < 0 else stop
    made.append((start, stop))
    at = text.find(template.header, stop)
  return made


def _same(sampled: str, turn: str, read: Read) -> bool:
  """Whether a turn says what was sampled.

  White space and the spelling of calls are the template's, and no reason to
  take other ids; a thought that is missing, or a wrapper of one, is.
  """
  return sampled == turn or _gist(sampled, read) == _gist(turn, read)


def _gist(text: str, read: Read):
  reply = read(text)
  made = [call for call in reply.calls if isinstance(call, calls.Call)]
  return ''.join(reply.rest.split()), made


def _encode(template: Template, text: str, inside: bool) -> list[int]:
  """Ids of the template's text; inside a row, as they are after a turn's end.

  Some tokenizers put a space before what begins a sequence.
  """
  if not inside:
    return chat.encode(template.tokenizer, text)
  end = template.tokenizer.eos_token
  first, *ids = chat.encode(template.tokenizer, end + text)
  if first != template.tokenizer.eos_token_id:
    raise ValueError(
      f'the tokenizer does not encode {end!r} as one token before {text!r};'
      ' make it a special token.'
    )
  return ids
