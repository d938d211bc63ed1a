"""Rollouts over connections that fail in every way: nothing is lost or mixed.

  python -m experiments.studies.faults [--quick]

Two servers on loopback, whose answers are known, get 2,000 requests in groups
of eight, while connections break, hang, and carry errors, halves, garbage,
copies and answers of others, and while one of the servers is killed and started
again. Prints a JSON object a line.
"""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from arl.rollout import engine, sglang, sglang_route
from experiments.studies import faulty, pretend, runs

SEED, GROUP, TOKENS = 0, 8, 24
RATE = 0.2  # of requests that meet a fault
_TIMEOUT = 1.0  # seconds, after which a request that hangs is asked again
_PACE = 0.002  # seconds a token


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


def main(argv: list[str]) -> None:
  del argv
  asked = requests(200 if runs.quick() else 2000)
  models = [pretend.Pretend(pace=_PACE) for _ in range(2)]
  with contextlib.ExitStack() as stack:
    servers = [
      stack.enter_context(faulty.Faulty(model.respond)) for model in models
    ]
    client = sglang.connect(
      [server.url for server in servers],
      vocab=pretend.VOCAB,
      context=pretend.CONTEXT,
      seed=SEED,
      timeout=_TIMEOUT,
    )
    stack.callback(client.close)
    for i, server in enumerate(servers):
      server.choose = faulty.sometimes(RATE, faulty.FAULTS, seed=i)
    crashes = stack.enter_context(crashing(servers[0]))
    began = time.monotonic()
    samples = client.generate(asked, engine.Sampling())
    seconds = time.monotonic() - began
  found = count(asked, samples)
  for name, value in found._asdict().items():
    runs.line(f'faults/{name}', value, f'of {len(asked)}', '0', (SEED,), None)
  for fault in faulty.FAULTS:
    times = sum(server.seen.get(fault, 0) for server in servers)
    runs.line(f'faults/met/{fault}', times, 'times', '> 0', (SEED,), None)
  crashed = len(crashes)
  runs.line('faults/met/crashes', crashed, 'times', '> 0', (SEED,), None)
  computed = sum(sum(model.computed.values()) for model in models)
  again = computed / len(asked)
  runs.line('faults/computed', again, 'times each', '', (SEED,), None)
  runs.line('faults/time', seconds, 's', '', (SEED,), None)


if __name__ == '__main__':
  runs.start(main)
