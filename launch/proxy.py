"""Serves a model to agents, and writes down every token they had sampled.

  python -m launch.proxy --model=FOLDER --port=8000

Point an agent's OpenAI client at http://HOST:PORT/v1, with a key of its own for
each rollout as the API key, or at http://HOST:PORT/rollouts/KEY/v1. Then

  POST /rollouts/KEY/reward {"reward": 1.0}    tells what it earned,
  POST /rollouts/KEY/finish {"status": ..}     how it ended, and
  GET  /rollouts/KEY                           gives its record, as JSON lines.

The model is sampled by the embedded engine, or by SGLang servers that hold the
same weights, with --urls. A request may not choose another temperature than
--temperature: a trainer has to know it.
"""

import hashlib

import uvicorn
from absl import app, flags

from arl import episode
from arl.envs import call_syntax
from arl.models import hf, tokenizers
from arl.rollout import (
  continuous,
  engine,
  proxy,
  proxy_sampling,
  record,
  sglang,
  strategies,
  templates,
)

_MODEL = flags.DEFINE_string('model', None, 'The folder of the model.')
_HOST = flags.DEFINE_string('host', '127.0.0.1', 'The address to listen on.')
_PORT = flags.DEFINE_integer('port', 8000, 'The port to listen on.', 1)
_URLS = flags.DEFINE_list(
  'urls', [], 'SGLang servers; none: it samples itself.'
)
_SYNTAX = flags.DEFINE_enum(
  'syntax', 'hermes', sorted(call_syntax.SYNTAXES), 'How it spells calls.'
)
_TEMPERATURE = flags.DEFINE_float('temperature', 1.0, '0 is greedy.', 0)
_CALLS = flags.DEFINE_integer('calls', 100, 'Calls of a rollout.', 1)
_TURN = flags.DEFINE_integer('turn_tokens', 1024, 'Tokens of an answer.', 1)
_CONTEXT = flags.DEFINE_integer('context', 4096, 'Prompt and answer.', 2)
_SLOTS = flags.DEFINE_integer('slots', 16, 'Answers sampled at a time.', 1)
_SEED = flags.DEFINE_integer('seed', 0, 'Of all randomness.')


def admit(key: str) -> record.Rollout:
  """The rollout of a key that is new; its randomness is the key's."""
  first = hashlib.sha256(key.encode()).digest()[:4]
  path = (int.from_bytes(first, 'little') >> 1,)
  return record.Rollout(key, episode.Task(key, '', {}), 0, path)


def make() -> proxy.Proxy:
  """The proxy that the flags describe."""
  loaded = hf.load(_MODEL.value)
  tokenizer = tokenizers.load(_MODEL.value)
  tokenizers.check_vocab(tokenizer, loaded.model.vocab)
  context, sampler = min(_CONTEXT.value, loaded.model.context), None
  if _URLS.value:
    sampler = sglang.connect(
      _URLS.value,
      vocab=loaded.model.vocab,
      context=context,
      seed=_SEED.value,
      names={'default': 0},
      limit=_SLOTS.value,
    )
  else:
    sampler = continuous.ContinuousEngine(
      loaded.model,
      loaded.params,
      slots=_SLOTS.value,
      context=context,
      seed=_SEED.value,
    )
  settings = proxy_sampling.Settings(
    templates.of(tokenizer),
    _SYNTAX.value,
    engine.Sampling(temperature=_TEMPERATURE.value),
    strategies.Limits(
      _CALLS.value, _TURN.value, context, _CALLS.value * _TURN.value
    ),
  )
  return proxy.Proxy(sampler, settings, {}, admit)


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  made = make()
  print(f'serving {_MODEL.value} on http://{_HOST.value}:{_PORT.value}/v1')
  uvicorn.run(made.app, host=_HOST.value, port=_PORT.value, log_level='warning')


def run() -> None:
  flags.mark_flags_as_required(['model'])
  app.run(main)


if __name__ == '__main__':
  run()
