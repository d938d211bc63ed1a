"""Conversations of an agent with a policy, as a proxy holds them."""

import conversations
import numpy as np

from arl import episode
from arl.envs import call_syntax
from arl.rollout import engine, messages, record, templates
from arl.rollout.proxy import reply as proxy_reply

TOOL = {
  'type': 'function',
  'function': {
    'name': 'get',
    'description': 'looks up',
    'parameters': {
      'type': 'object',
      'properties': {'key': {'type': 'string'}},
    },
  },
}


def nothing(text):
  return call_syntax.SYNTAXES['hermes'].read(text, [])


class Talk:
  """A conversation of an agent with a policy, as the proxy holds it."""

  def __init__(self, tokenizer, syntax='hermes', tools=(TOOL,)):
    self.tokenizer, self.tools = tokenizer, list(tools)
    self.template = templates.of(tokenizer)
    self.syntax = call_syntax.SYNTAXES[syntax]
    self.decode, self.stop = self.template.decode, self.template.stop
    self.rollout = record.Rollout('k', episode.Task('t', '', {}))
    self.said = []

  def read(self, text):
    return self.syntax.read(text, [])

  def prompt(self):
    given = messages.read(self.said)
    contexts = messages.contexts(given)
    found = [
      self.rollout.find(m, c) if m['role'] == 'assistant' else None
      for m, c in zip(given, contexts)
    ]
    ids = templates.prompt(
      self.template,
      given,
      [call and record.sampled(call, self.stop) for call in found],
      tools=self.tools,
      read=self.read,
      write=self.syntax.write,
    )
    return ids, contexts[-1]

  def answer(self, text, ended=True):
    """The policy says the text; gives the call, and the message of it."""
    ids = self.tokenizer.encode(text, add_special_tokens=False)
    return self.answer_ids([*ids, *self.stop] if ended else ids)

  def answer_ids(self, ids):
    prompt, context = self.prompt()
    n = len(ids)
    finish = engine.STOP if ids[-1] in self.stop else engine.LENGTH
    sample = engine.Sample(
      np.array(ids, np.int32), np.full(n, -1.0, np.float32), finish,
      np.zeros(n, np.int32),
    )  # fmt: skip
    one = proxy_reply.piece(self.decode, sample, self.stop, ())
    shown = proxy_reply.message(
      one, str(len(self.said)), self.template.thinking, self.read
    )
    (message,) = messages.read([shown])
    call = self.rollout.add(
      prompt, sample, one.text, message=message, context=context
    )
    self.said.append(shown)
    return call

  def tell(self, role, content, **more):
    self.said.append({'role': role, 'content': content, **more})

  def text(self, row):
    return self.tokenizer.decode(self.rollout.rows[row])


def talk(name):
  syntax = conversations.FAMILIES[name][2]
  return Talk(conversations.family(name), syntax)


CALL = {
  'hermes': '<tool_call>{"name":"get",  "arguments":{"key":"é"}}</tool_call>',
  'llama': '{"name":"get",  "parameters":{"key":"é"}}',
}
