"""Conversations over several servers: each stays where its cache is."""

import contextlib

import numpy as np
import served
import serving
import tiny

from arl.rollout import engine, sglang

TURNS, SAMPLED = 3, 4


def play(client, session_of, seed, count=8, turned=0):
  """The share of what earlier turns computed that later ones find.

  Requests are sent in their order, turned by so many places each turn.
  """
  rng = np.random.default_rng(seed)
  rows = [rng.integers(0, 32, 5 + i % 3).tolist() for i in range(count)]
  cached, asked = 0, 0
  for turn in range(TURNS):
    order = np.roll(range(count), turned * turn)
    requests = [
      engine.Request(
        tuple(rows[i]), SAMPLED, (seed, int(i), turn), session_of(i, turn)
      )
      for i in order
    ]
    samples = client.generate(requests, engine.Sampling())
    for i, sample in zip(order, samples):
      row = rows[i]
      if turn:
        cached += sample.cached
        asked += len(row) - 3  # of the turn before, its last token is not
      row += [*sample.tokens.tolist(), int(rng.integers(32)), 1]
  return cached / asked


def test_turns_find_what_earlier_ones_computed(tmp_path, compiled_once):
  del compiled_once
  folder = tiny.write_model(tmp_path / 'model', shape=tiny.size(32))
  with contextlib.ExitStack() as stack:
    servers = [
      stack.enter_context(serving.running(folder, slots=32, context=32))
      for _ in range(2)
    ]
    client = sglang.connect(
      [str(server.base_url) for server in servers],
      vocab=32, context=32, seed=3,
    )  # fmt: skip
    stack.callback(client.close)
    stays = play(client, lambda i, turn: ('stays', i // 2, i), 0)
    # A new session each turn is what routing without one would do.
    moves = play(client, lambda i, turn: ('moves', turn, i), 1, turned=1)
  assert stays > 0.95
  assert moves < 0.8


def test_every_request_of_a_session_carries_its_key():
  with served.serving(count=2) as (client, _, _):
    seen = []
    for worker in client.workers:
      worker._data.event_hooks['request'] = [note(seen)]
    for _ in range(2):
      client.generate(served.requests(3), served.PLAIN)
  keys = [key for path, key in seen if path == '/generate']
  assert len(keys) == 6 and len(set(keys)) == 3 and None not in keys


def note(seen):
  async def hook(request):
    path = request.url.path
    seen.append((path, request.headers.get('x-smg-routing-key')))

  return hook
