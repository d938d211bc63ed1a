"""Rollouts over connections that fail in every way: nothing is lost or mixed.

  python -m experiments.studies.faults [--quick] [--workdir=DIR]

Two servers on loopback, whose answers are known, get 2,000 requests in groups
of eight, while connections break, hang, and carry errors, halves, garbage,
copies and answers of others, and while one of the servers is killed and started
again. Then the quickstart's task is trained with the embedded server, reached
directly and through such connections: the two runs have to be the same. Prints
a JSON object a line.
"""

import contextlib
import pathlib
import re
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from arl.rollout import engine, sglang
from arl.rollout.sglang import route as sglang_route
from experiments.studies import faulty, pretend, quickstart, runs, servers

SEED, GROUP, TOKENS = 0, 8, 24
RATE = 0.2  # of requests that meet a fault
_TIMEOUT = 1.0  # seconds, after which a request that hangs is asked again
_PACE = 0.002  # seconds a token
_CLOCK = re.compile('wall|time/.*|speed/.*')


class Count(NamedTuple):
  """What became of the requests.

  Attributes:
    lost: without a sample, or with one that nobody asked for.
    duplicated: samples that another request of the group got, too.
    mixed: samples that belong to a request of another group.
  """

  lost: int
  duplicated: int
  mixed: int


def requests(count: int) -> list[engine.Request]:
  """Groups of requests with one prompt."""
  rng = np.random.default_rng(SEED)
  asked = []
  for group in range(count // GROUP):
    length = int(rng.integers(2, 12))
    prompt = tuple(rng.integers(0, pretend.VOCAB, length).tolist())
    for i in range(GROUP):
      path = (0, group, i)
      asked.append(engine.Request(prompt, TOKENS, path, session=path))
  return asked


def expected(request: engine.Request) -> tuple[int, ...]:
  """What a server has to answer."""
  seed = sglang_route.seed_of(SEED, request.path)
  return tuple(
    pretend.continuation(request.tokens, seed, request.max_tokens, ())
  )


def count(
  asked: Sequence[engine.Request], samples: Sequence[engine.Sample]
) -> Count:
  """Compares the samples with what had to come."""
  owner = {expected(request): request.path for request in asked}
  seen: set[tuple[int, ...]] = set()
  lost, duplicated, mixed = abs(len(asked) - len(samples)), 0, 0
  for request, sample in zip(asked, samples):
    tokens = tuple(sample.tokens.tolist())
    whose = owner.get(tokens)
    lost += whose is None
    duplicated += tokens in seen
    mixed += whose is not None and whose[:2] != request.path[:2]
    seen.add(tokens)
  return Count(lost, duplicated, mixed)


@contextlib.contextmanager
def crashing(server: faulty.Faulty) -> Iterator[list[float]]:
  """Kills a server and starts it again, over and over; when it was killed."""
  done = threading.Event()
  times: list[float] = []

  def crash() -> None:
    while not done.wait(1.5):
      server.kill()
      times.append(time.monotonic())
      time.sleep(0.3)
      server.start()

  thread = threading.Thread(target=crash)
  thread.start()
  try:
    yield times
  finally:
    done.set()
    thread.join()


def rollouts(quick: bool) -> None:
  """Counts what became of requests over connections that fail."""
  asked = requests(200 if quick else 2000)
  models = [pretend.Pretend(pace=_PACE) for _ in range(2)]
  with contextlib.ExitStack() as stack:
    connected = [
      stack.enter_context(faulty.Faulty(model.respond)) for model in models
    ]
    client = sglang.connect(
      [server.url for server in connected],
      vocab=pretend.VOCAB,
      context=pretend.CONTEXT,
      seed=SEED,
      timeout=_TIMEOUT,
    )
    stack.callback(client.close)
    for i, server in enumerate(connected):
      server.choose = faulty.sometimes(RATE, faulty.FAULTS, seed=i)
    crashes = stack.enter_context(crashing(connected[0]))
    began = time.monotonic()
    samples = client.generate(asked, engine.Sampling())
    seconds = time.monotonic() - began
  for name, value in count(asked, samples)._asdict().items():
    _say(name, value, f'of {len(asked)}', '0')
  for fault in faulty.FAULTS:
    times = sum(server.seen.get(fault, 0) for server in connected)
    _say(f'met/{fault}', times, 'times', '> 0')
  _say('met/crashes', len(crashes), 'times', '> 0')
  computed = sum(sum(model.computed.values()) for model in models)
  _say('computed', computed / len(asked), 'times each', '')
  _say('time', seconds, 's', '')


def _say(name: str, value: float, unit: str, aim: str) -> None:
  runs.line(f'faults/{name}', value, unit, aim, (SEED,), None)


def trained(root: pathlib.Path, name: str, url: str, quick: bool) -> runs.Run:
  """A run whose sampler is at a url."""
  run = quickstart.trained(root, 'dapo', SEED, quick)
  folder = root / f'faults_{name}'
  served = (
    f'--config.engine.urls={url}',
    f'--config.engine.folder={folder / "weights"}',
    f'--config.steps={4 if quick else 20}',
  )
  return run._replace(workdir=folder, overrides=(*run.overrides, *served))


def learning(root: pathlib.Path, quick: bool) -> None:
  """Compares training over connections that fail with training over others."""
  warm = quickstart.warm_start(root, SEED, quick)
  runs.make([warm])
  # A run waits ten minutes for what hangs; that it is asked again was counted.
  faults = [fault for fault in faulty.FAULTS if fault != 'hang']
  flags = ('--slots=256', '--context=128', f'--seed={SEED}')
  model = warm.workdir / 'final'
  with (
    servers.embedded(model, root / 'servers', *flags) as url,
    faulty.Faulty(faulty.forward(url)) as between,
  ):
    direct = trained(root, 'direct', url, quick)
    runs.make([direct])
    between.choose = faulty.sometimes(RATE / 4, faults, SEED)
    through = trained(root, 'through', between.url, quick)
    runs.make([through])
    _say('training/met', sum(between.seen.values()), 'times', '> 0')
  rows = [runs.rows(run) for run in (direct, through)]
  names = {name for name in rows[0][0] if not _CLOCK.fullmatch(name)}
  other = sum(
    one[name] != two[name]
    for one, two in zip(*rows, strict=True)
    for name in names
  )
  of = f'of {len(rows[0]) * len(names)} metrics'
  _say('training/different', other, of, '0')
  last = [float(each[-1]['train/success']) for each in rows]
  _say('training/success', last[1], 'success rate', f'{last[0]:.4f}')


def main(argv: list[str]) -> None:
  del argv
  rollouts(runs.quick())
  learning(runs.root(), runs.quick())


if __name__ == '__main__':
  runs.start(main)
