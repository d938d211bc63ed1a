"""Recorded messages as ids: what comes before an answer, and the answer.

Conversations are printed by the tokenizer's own template, tools included, as
they are where the model is used.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from arl.envs import call_syntax, calls
from arl.rollout import chat as chat_lib
from arl.rollout import messages, templates

_WRITE = call_syntax.SYNTAXES['hermes'].write  # for templates without calls
# What is wrong with a record, and not with the program.
FOUND = (chat_lib.UnfitText, templates.Unfit, messages.Refused)


def prompt(
  template: templates.Template,
  said: Sequence[messages.Message],
  sampled: Sequence[templates.Sampled | None],
  tools: Any,
) -> list[int]:
  """The ids of a conversation, up to where the assistant speaks.

  Args:
    template: of the tokenizer.
    said: as `messages.read` gives them.
    sampled: the ids of each message that stand for themselves; None elsewhere.
    tools: as in the OpenAI format; none if empty.

  Raises:
    One of FOUND: what the template or the tokenizer refuses.
  """
  return templates.prompt(
    template,
    said,
    sampled,
    tools=tools,
    read=lambda text: calls.Reply((), False, text),
    write=_WRITE,
  )


def answer(
  template: templates.Template, said: Sequence[messages.Message], tools: Any
) -> list[int]:
  """The ids of the last message, the one that ends the turn included.

  Arguments and errors as of `prompt`.
  """
  templates.check_clean(template, said, [None] * len(said), tools)
  text = _printed(template, said, tools)
  end = template.tokenizer.eos_token
  return chat_lib.encode(template.tokenizer, end + text + end)[1:]


def _printed(
  template: templates.Template,
  said: Sequence[Mapping[str, Any]],
  tools: Any,
) -> str:
  """What the template prints for the last message, without its end."""
  shown = [_with_text_calls(template, message) for message in said]
  render = template.tokenizer.apply_chat_template
  asked = render(
    shown[:-1], tools=tools or None, tokenize=False, add_generation_prompt=True
  )
  whole = render(shown, tools=tools or None, tokenize=False)
  text, end, _ = whole.removeprefix(asked).partition(
    template.tokenizer.eos_token
  )
  if not whole.startswith(asked) or not end:
    raise templates.Unfit(
      'the chat template does not print an answer after what it prints to ask'
      ' for one; use a template that does.'
    )
  return text


def _with_text_calls(template, message) -> dict[str, Any]:
  """The message, its calls written as text where the template prints none."""
  made = {**message}
  if template.calls or not made.get('tool_calls'):
    return made
  listed = [call['function'] for call in made.pop('tool_calls')]
  written = _WRITE([calls.Call(f['name'], f['arguments']) for f in listed])
  made['content'] = '\n'.join(filter(None, [made['content'], written]))
  return made
