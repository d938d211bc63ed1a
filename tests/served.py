"""A client of SGLang, and servers that pretend to be it, on loopback."""

import contextlib
import time

import numpy as np

from arl.rollout import engine, sglang
from experiments.studies import faulty, pretend

PLAIN = engine.Sampling()


@contextlib.contextmanager
def serving(choose=faulty.never, count=1, keywords=None, **made):
  """A client, the servers it knows, and what they pretend to be."""
  with contextlib.ExitStack() as stack:
    models = [pretend.Pretend(**made) for _ in range(count)]
    servers = [
      stack.enter_context(faulty.Faulty(model.respond, choose))
      for model in models
    ]
    client = sglang.connect(
      [server.url for server in servers],
      **{
        'vocab': pretend.VOCAB,
        'context': pretend.CONTEXT,
        'seed': 3,
        'patience': 5.0,
        'timeout': 5.0,
        **(keywords or {}),
      },
    )
    stack.callback(client.close)
    yield client, servers, models


def requests(count, *, most=12):
  """Short prompts, each of a session of its own."""
  rng = np.random.default_rng(count)
  return [
    engine.Request(
      tuple(rng.integers(0, pretend.VOCAB, 1 + i % 9).tolist()),
      most,
      (5, i),
      ('group', i),
    )
    for i in range(count)
  ]


def asked(model):
  """The bodies of the requests that a server got."""
  return [body for path, body in model.calls if path == '/generate']


def check(client, request, sample, stop=()):
  """The sample is the one of this request."""
  body = client._fleet._body(request, PLAIN, '')
  seed = body['sampling_params']['sampling_seed']
  wanted = pretend.continuation(request.tokens, seed, request.max_tokens, stop)
  assert sample.tokens.tolist() == wanted
  np.testing.assert_allclose(sample.logp, pretend.logp(0, wanted), rtol=1e-6)


def wait_for(condition):
  """Until it holds, for thirty seconds at most."""
  end = time.monotonic() + 30
  while not condition():
    assert time.monotonic() < end
    time.sleep(0.01)
