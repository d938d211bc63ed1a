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
from collections.abc import Sequence

import uvicorn
from absl import app, flags

from arl import episode
from arl.envs import call_syntax
from arl.models import hf, tokenizers
from arl.rollout import (
  continuous,
  engine,
  proxy,
  record,
  sglang,
  strategies,
  templates,
)
from arl.rollout.proxy import sampling as proxy_sampling
from launch import start


def admit(key: str) -> record.Rollout:
  """The rollout of a key that is new; its randomness is the key's."""
  first = hashlib.sha256(key.encode()).digest()[:4]
  path = (int.from_bytes(first, 'little') >> 1,)
  return record.Rollout(key, episode.Task(key, '', {}), 0, path)


def make(
  folder: str,
  *,
  urls: Sequence[str] = (),
  syntax: str = 'hermes',
  temperature: float = 1.0,
  calls: int = 100,
  turn_tokens: int = 1024,
  context: int = 4096,
  slots: int = 16,
  seed: int = 0,
) -> proxy.Proxy:
  """A proxy in front of servers, or of an engine of its own.

  Args:
    folder: of the model.
    urls: of SGLang servers; none where it samples itself.
    syntax: how the model spells calls, a name of `call_syntax.SYNTAXES`.
    temperature: 0 is greedy.
    calls: of a rollout.
    turn_tokens: of an answer.
    context: tokens of a prompt and its answer.
    slots: answers sampled at a time.
    seed: of all randomness.
  """
  loaded = hf.load(folder)
  tokenizer = tokenizers.load(folder)
  model = tokenizers.known(tokenizer, loaded.model)
  context, sampler = min(context, model.context), None
  if urls:
    sampler = sglang.connect(
      urls,
      vocab=model.vocab,
      context=context,
      seed=seed,
      names={'default': 0},
      limit=slots,
    )
  else:
    sampler = continuous.ContinuousEngine(
      model, loaded.params, slots=slots, context=context, seed=seed
    )
  settings = proxy_sampling.Settings(
    templates.of(tokenizer),
    syntax,
    engine.Sampling(temperature=temperature),
    strategies.Limits(calls, turn_tokens, context, calls * turn_tokens),
  )
  return proxy.Proxy(sampler, settings, {}, admit)


def define() -> None:
  """Defines the flags."""
  flags.DEFINE_string('model', None, 'The folder of the model.')
  flags.DEFINE_string('host', '127.0.0.1', 'The address to listen on.')
  flags.DEFINE_integer('port', 8000, 'The port to listen on.', 1)
  flags.DEFINE_list('urls', [], 'SGLang servers; none: it samples itself.')
  syntaxes = sorted(call_syntax.SYNTAXES)
  flags.DEFINE_enum('syntax', 'hermes', syntaxes, 'How it spells calls.')
  flags.DEFINE_float('temperature', 1.0, '0 is greedy.', 0)
  flags.DEFINE_integer('calls', 100, 'Calls of a rollout.', 1)
  flags.DEFINE_integer('turn_tokens', 1024, 'Tokens of an answer.', 1)
  flags.DEFINE_integer('context', 4096, 'Prompt and answer.', 2)
  flags.DEFINE_integer('slots', 16, 'Answers sampled at a time.', 1)
  flags.DEFINE_integer('seed', 0, 'Of all randomness.')


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  f = flags.FLAGS
  made = make(
    f.model,
    urls=f.urls,
    syntax=f.syntax,
    temperature=f.temperature,
    calls=f.calls,
    turn_tokens=f.turn_tokens,
    context=f.context,
    slots=f.slots,
    seed=f.seed,
  )
  print(f'serving {f.model} on http://{f.host}:{f.port}/v1')
  uvicorn.run(made.app, host=f.host, port=f.port, log_level='warning')


if __name__ == '__main__':
  start.run(main, define, required=('model',))
