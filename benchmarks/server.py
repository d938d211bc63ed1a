"""What the embedded server costs over the engine in its process.

  python -m benchmarks.server [--quick]

The quickstart's model, fresh, answers the same requests twice: LocalEngine in
this process, 64 at once, and launch/serve.py in another one, asked over HTTP by
this process with 1, 8 and 64 requests in flight. Both take turns, and every
answer of the server is compared with the engine's: tokens and log-probs have to
be the same bits. Two loads: `even`, 64 tokens of every request, and `uneven`,
32 to 96, where a pass in process waits for its longest row. Prompts have 16 to
80 tokens. Prints a JSON object a line and rewrites benchmarks/results/server.md
unless --quick. Exits 1 if an answer differs.

What asks shares the machine's cores with the server, so it does little: it has
the requests ready, keeps its connections and reads answers when all are there.
A client such as httpx costs as much again as the server does for HTTP.
"""

import asyncio
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import uvicorn
from absl import app, logging

from arl.models import hf, sizes, transformer
from arl.rollout import engine, local
from benchmarks import machine, options, rounds
from experiments.studies import runs, servers

TABLE = pathlib.Path(__file__).parent / 'results' / 'server.md'
SEED = 0
_SLOTS, _CONTEXT, _VOCAB = 64, 256, 102
_AIM = '>= 0.8'


class Load(NamedTuple):
  """Requests that ask for `low` to `high` tokens."""

  name: str
  low: int
  high: int


LOADS = (Load('even', 64, 64), Load('uneven', 32, 96))
AT_ONCE = {1: 8, 8: 48, 64: 192}  # requests in flight: requests of a round


def requests(load: Load, count: int, round_: int) -> list[engine.Request]:
  """New requests for each round, so that no cache knows them."""
  rng = np.random.default_rng((SEED, load.high, count, round_))
  made = []
  for i in range(count):
    prompt = rng.integers(2, _VOCAB, int(rng.integers(16, 81)))
    most = int(rng.integers(load.low, load.high + 1))
    made.append(
      engine.Request(tuple(prompt.tolist()), most, (count, round_, i))
    )
  return made


def body(request: engine.Request) -> bytes:
  """A request to /generate, as it goes over the wire."""
  content = json.dumps(
    {
      'input_ids': request.tokens,
      'return_logprob': True,
      'sampling_params': {
        'max_new_tokens': request.max_tokens,
        'ignore_eos': True,
        'custom_params': {'path': request.path},
      },
    }
  ).encode()
  head = (
    'POST /generate HTTP/1.1\r\nhost: 127.0.0.1\r\n'
    f'content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n'
  )
  return head.encode() + content


async def _answer(reader: asyncio.StreamReader) -> bytes:
  """The content of one answer."""
  head = await reader.readuntil(b'\r\n\r\n')
  status, *lines = head.decode().lower().splitlines()
  fields = dict(line.split(': ', 1) for line in lines if line)
  content = await reader.readexactly(int(fields['content-length']))
  if status.split()[1] != '200':
    raise RuntimeError(f'the server answered {status}: {content!r:.200}')
  return content


async def over_http(
  port: int, asked: Sequence[engine.Request], at_once: int
) -> tuple[float, list[Any]]:
  """Seconds and answers, with so many requests in flight."""
  bodies, made = [body(r) for r in asked], [b''] * len(asked)
  left = iter(range(len(asked)))

  async def work():
    reader, writer = await asyncio.open_connection('127.0.0.1', port)
    for i in left:
      writer.write(bodies[i])
      made[i] = await _answer(reader)
    writer.close()

  start = time.perf_counter()
  await asyncio.gather(*(work() for _ in range(at_once)))
  seconds = time.perf_counter() - start
  return seconds, [json.loads(text) for text in made]


def differing(answers: Sequence[Any], samples: Sequence[engine.Sample]) -> int:
  """How many answers are not the samples, to the bit."""
  return sum(
    answer['output_ids'] != sample.tokens.tolist()
    or [e[0] for e in answer['meta_info']['output_token_logprobs']]
    != sample.logp.tolist()
    for answer, sample in zip(answers, samples, strict=True)
  )


class Outcome(NamedTuple):
  """A row of the table: rates by the second, medians and intervals."""

  load: str
  at_once: int
  requests: tuple[float, list[float]]
  tokens: tuple[float, list[float]]
  process: tuple[float, list[float]]
  share: tuple[float, list[float]]
  differing: int


def measure(
  load: Load, at_once: int, port: int, made: local.LocalEngine, quick: bool
) -> Outcome:
  """Rounds of both sides in turn; the first one is not counted."""
  count = AT_ONCE[at_once] // (4 if quick else 1)
  rates: dict[str, list[float]] = {'requests': [], 'tokens': [], 'process': []}
  wrong = 0
  for round_ in range(-1, 2 if quick else 6):
    asked = requests(load, max(count, at_once), round_ + 1)
    tokens = sum(r.max_tokens for r in asked)
    start = time.perf_counter()
    samples = made.generate(asked, engine.Sampling())
    in_process = time.perf_counter() - start
    seconds, answers = asyncio.run(over_http(port, asked, at_once))
    wrong += differing(answers, samples)
    if round_ >= 0:
      rates['requests'].append(len(asked) / seconds)
      rates['tokens'].append(tokens / seconds)
      rates['process'].append(tokens / in_process)
  shares = [a / b for a, b in zip(rates['tokens'], rates['process'])]
  return Outcome(
    load.name,
    at_once,
    rounds.median(rates['requests']),
    rounds.median(rates['tokens']),
    rounds.median(rates['process']),
    rounds.median(shares),
    wrong,
  )


def say(outcome: Outcome) -> None:
  """Prints the lines of an outcome."""
  name = f'server/{outcome.load}/{outcome.at_once}'
  aimed = outcome.at_once == 64
  for what, (value, ends), unit, aim in (
    ('requests', outcome.requests, '1/s', ''),
    ('tokens', outcome.tokens, '1/s', ''),
    ('tokens_in_process', outcome.process, '1/s', ''),
    ('share_of_in_process', outcome.share, '', _AIM if aimed else ''),
  ):
    interval = [round(end, 4) for end in ends]
    runs.line(f'{name}/{what}', value, unit, aim, (SEED,), interval)
  runs.line(f'{name}/differing', outcome.differing, '', '0', (SEED,), None)


def _cells(outcome: Outcome) -> list[str]:
  show = lambda pair: '{:.4g} ({:.4g} to {:.4g})'.format(pair[0], *pair[1])
  aimed = outcome.at_once == 64
  met = machine.meets(outcome.share[0], _AIM)
  verdict = ('met' if met else 'missed') if aimed else ''
  return [
    outcome.load,
    f'{outcome.at_once}',
    show(outcome.requests),
    show(outcome.tokens),
    show(outcome.process),
    show(outcome.share),
    _AIM if aimed else '',
    verdict,
  ]


def write(outcomes: Sequence[Outcome], load: float) -> None:
  """Rewrites the table, with what has to be known to read it."""
  header = (
    'load', 'in flight', 'requests/s', 'tokens/s', 'in process, tokens/s',
    'share', 'aim', '',
  )  # fmt: skip
  total = sum(each.differing for each in outcomes)
  about = (
    'Written by `python -m benchmarks.server`, whose docstring says what is'
    ' measured. Medians\nover rounds with 95 % intervals.'
  )
  facts = [
    f'jax {jax.__version__}, uvicorn {uvicorn.__version__}',
    'answers that differ from those in process, in a token or a bit of a'
    f' log-prob: {total}',
  ]
  where = f'{os.cpu_count()} cores for the server and what asks it'
  table = runs.markdown(header, [_cells(each) for each in outcomes])
  machine.write(TABLE, about, table, load, facts, where)


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  logging.set_verbosity(logging.WARNING)  # httpx tells every request at INFO
  quick, load = options.quick(), os.getloadavg()[0]
  size = sizes.quick(_VOCAB)
  with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name) / 'model'
    fresh = transformer.make(size).init(jax.random.key(SEED))
    hf.save(folder, jax.device_get(fresh), size)
    loaded = hf.load(folder)
    made = local.LocalEngine(
      loaded.model, loaded.params, slots=_SLOTS, context=_CONTEXT, seed=SEED
    )
    settings = (f'--slots={_SLOTS}', f'--context={_CONTEXT}', f'--seed={SEED}')
    with servers.embedded(
      folder, pathlib.Path(name), *settings, '--skip_tokenizer_init'
    ) as url:
      port, outcomes = int(url.rpartition(':')[2]), []
      for each in LOADS:
        for at_once in AT_ONCE:
          outcomes.append(measure(each, at_once, port, made, quick))
          say(outcomes[-1])
  if not quick:
    write(outcomes, load)
  if any(each.differing for each in outcomes):
    sys.exit('answers of the server differ from those of the engine')


if __name__ == '__main__':
  options.start(main)
