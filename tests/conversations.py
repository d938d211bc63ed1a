"""Chat templates like those of published models, and a scripted engine."""

import asyncio

import numpy as np
import tokenizers

from arl.models import tokenizers as tokenizers_lib
from arl.rollout import engine

_CALLS = (
  '{% for c in m.tool_calls or [] %}'
  '{{ \'\\n<tool_call>\\n{"name": "\' + c.function.name + \'", \''
  ' + \'"arguments": \' }}{{ c.function.arguments|tojson }}'
  "{{ '}\\n</tool_call>' }}"
  '{% endfor %}'
)
_SYSTEM = (
  '{% set first = messages[0] %}'
  "{% set told = first.content if first.role == 'system' else 'be kind' %}"
  "{{ '<|im_start|>system\\n' + told }}"
  "{% for tool in tools or [] %}{{ '\\n' }}{{ tool|tojson }}{% endfor %}"
  "{{ '<|im_end|>\\n' }}"
)
_SAY = "{{ '<|im_start|>' + m.role + '\\n' + m.content }}"
_END = "{{ '<|im_end|>\\n' }}"
_ASK = (
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
# Every turn stays as it was.
CHATML = (
  f'{_SYSTEM}'
  "{% for m in messages if m.role != 'system' %}"
  f'{_SAY}{_CALLS}{_END}'
  '{% endfor %}' + _ASK
)
_TOOLS = (
  "{% if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}"
  "{{ '<|im_start|>user' }}{% endif %}"
  "{{ '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}"
  "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}"
  f'{_END}'
  '{% endif %}'
)
# Messages of tools that follow each other are one turn.
MERGING = (
  '{% for m in messages %}'
  f"{{% if m.role == 'tool' %}}{_TOOLS}{{% else %}}{_SAY}{_CALLS}{_END}"
  '{% endif %}{% endfor %}' + _ASK
)
# So they are here; and thoughts are shown until the next message of the user.
THINKING = (
  '{% set ns = namespace(last=-1) %}'
  '{% for m in messages %}'
  "{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}"
  '{% endfor %}'
  '{% for m in messages %}'
  f"{{% if m.role == 'tool' %}}{_TOOLS}"
  "{% elif m.role == 'assistant' %}"
  "{% set parts = m.content.split('</think>') %}"
  "{% set thought = parts[0].split('<think>')[-1].strip('\\n')"
  " if parts|length > 1 else '' %}"
  "{{ '<|im_start|>assistant\\n' }}"
  '{% if loop.index0 > ns.last and (loop.last or thought) %}'
  "{{ '<think>\\n' + thought + '\\n</think>\\n\\n' }}"
  '{% endif %}'
  "{{ parts[-1].lstrip('\\n') }}"
  f'{_CALLS}{_END}'
  f'{{% else %}}{_SAY}{_END}{{% endif %}}'
  '{% endfor %}' + _ASK
)
# Thinking is switched off by a wrapper around nothing, shown only at the end.
SILENT = THINKING.replace(
  _ASK,
  _ASK.replace("assistant\\n'", "assistant\\n<think>\\n\\n</think>\\n\\n'"),
)
# The wrapper is opened by the template, and is there until the next user.
OPENED = THINKING.replace(
  _ASK, _ASK.replace("assistant\\n'", "assistant\\n<think>\\n'")
)
LLAMA = (
  "{{ '<s>' }}"
  '{% for m in messages %}'
  "{% set role = 'ipython' if m.role == 'tool' else m.role %}"
  "{{ '<|header|>' + role + '<|/header|>\\n\\n' }}"
  '{% if m.tool_calls %}'
  '{% for c in m.tool_calls %}'
  "{{ '; ' if not loop.first else '' }}"
  '{{ \'{"name": "\' + c.function.name + \'", "parameters": \' }}'
  "{{ c.function.arguments|tojson }}{{ '}' }}"
  '{% endfor %}'
  '{% else %}{{ m.content|trim }}{% endif %}'
  "{{ '<|eot|>' }}"
  '{% endfor %}'
  '{% if add_generation_prompt %}'
  "{{ '<|header|>assistant<|/header|>\\n\\n' }}{% endif %}"
)
CHATML_MARKS = ('<|im_end|>', '<|im_start|>')
LLAMA_MARKS = ('<|eot|>', '<|header|>', '<|/header|>', '<s>')
# name -> (template, its marks, how calls are spelled)
FAMILIES = {
  'chatml': (CHATML, CHATML_MARKS, 'hermes'),
  'merging': (MERGING, CHATML_MARKS, 'hermes'),
  'thinking': (THINKING, CHATML_MARKS, 'hermes'),
  'silent': (SILENT, CHATML_MARKS, 'hermes'),
  'opened': (OPENED, CHATML_MARKS, 'hermes'),
  'llama': (LLAMA, LLAMA_MARKS, 'llama'),
}


def spelled(template, marks, *, bos=None):
  """A tokenizer of characters, é among them; its first mark ends a turn."""
  tokens = ['<|pad|>', *marks, '\n', *map(chr, range(32, 127)), 'é']
  core = tokenizers.Tokenizer(
    tokenizers.models.WordLevel({token: i for i, token in enumerate(tokens)})
  )
  core.pre_tokenizer = tokenizers.pre_tokenizers.Split(
    tokenizers.Regex(r'[\s\S]'), 'isolated'
  )
  core.decoder = tokenizers.decoders.Fuse()
  made = tokenizers_lib.wrap(core, template, '<|pad|>', marks[0], marks[1:])
  if bos:
    made.bos_token = bos
    made.backend_tokenizer.post_processor = (
      tokenizers.processors.TemplateProcessing(
        f'{bos} $A', None, [(bos, made.convert_tokens_to_ids(bos))]
      )
    )
  return made


def family(name):
  template, marks, _ = FAMILIES[name]
  return spelled(template, marks, bos='<s>' if '<s>' in marks else None)


class Script:
  """An engine that says what it is told to, whatever it is asked.

  Attributes:
    says: request -> ids, without the stop id; or a Sample as it is.
    calls: every request seen.
    running: requests under way.
  """

  def __init__(self, says, *, version=7, pause=0.0):
    self.says, self.version, self.pause = says, version, pause
    self.calls, self.running = [], 0

  async def sample(self, request, sampling):
    self.calls.append(request)
    self.running += 1
    try:
      await asyncio.sleep(self.pause)
      return self._answer(request, sampling)
    finally:
      self.running -= 1

  async def stream(self, request, sampling):
    whole = await self.sample(request, sampling)
    for n in range(1, len(whole.tokens)):
      yield whole._replace(
        tokens=whole.tokens[:n],
        logp=whole.logp[:n],
        versions=whole.versions[:n],
        finish='',
      )
    yield whole

  def _answer(self, request, sampling):
    said = self.says(request)
    if isinstance(said, engine.Sample):
      return said
    ids = [*said, *sampling.stop[:1]][: request.max_tokens]
    finish = engine.STOP if ids[-1] in sampling.stop else engine.LENGTH
    logp = -0.5 - np.arange(len(ids), dtype=np.float32) / 64
    versions = np.full(len(ids), self.version, np.int32)
    return engine.Sample(np.array(ids, np.int32), logp, finish, versions)


def pairs():
  """Few ids for few letters: 'ab' is one token, or two."""
  marks = ('<e>', '<u>', '<a>', '<o>')
  vocab = {'<p>': 0, 'ab': 1, 'a': 2, 'b': 3, 'bc': 4, 'c': 5}
  core = tokenizers.Tokenizer(
    tokenizers.models.BPE(vocab=vocab, merges=[('a', 'b'), ('b', 'c')])
  )
  core.add_special_tokens(list(marks))
  core.decoder = tokenizers.decoders.Fuse()
  template = (
    '{% for m in messages %}'
    "{{ {'user': '<u>', 'assistant': '<a>', 'tool': '<o>'}[m.role] }}"
    "{{ m.content }}{{ '<e>' if m.role == 'assistant' else '' }}"
    '{% endfor %}'
    "{{ '<a>' if add_generation_prompt else '' }}"
  )
  return tokenizers_lib.wrap(core, template, '<p>', '<e>', marks[1:])
