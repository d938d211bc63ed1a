"""Which server a request goes to, and the seed it is given there.

A conversation stays with the server that has computed its earlier turns. A new
one goes where rendezvous hashing sends its group, which has the prompt in its
cache, past servers that carry more than their share, as in consistent hashing
with bounded loads (arXiv:1608.01350). What runs is never moved.
"""

import collections
import hashlib
import math
from collections.abc import Hashable, Mapping, Sequence

_SLACK = 1.25  # times the mean load
_REMEMBERED = 100_000  # sessions


def _digest(*parts: object) -> int:
  text = '\x1f'.join(map(repr, parts)).encode()
  return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), 'big')


def seed_of(seed: int, path: Sequence[int]) -> int:
  """The seed of a request, 0 <= seed < 2^31, the same on every machine."""
  return _digest(seed, *(int(i) for i in path)) >> 33


def family(session: Hashable) -> Hashable:
  """What the sessions of one group share: all but the last of a tuple."""
  if isinstance(session, tuple) and len(session) > 1:
    return session[:-1]
  return session


def header(session: Hashable) -> dict[str, str]:
  """What tells a gateway, or a proxy, to send a session to one server.

  The same for all requests of a session, on any machine; none for none.
  """
  if session is None:
    return {}
  return {'X-SMG-Routing-Key': f'{_digest(session):016x}'}


def ranked(key: Hashable, urls: Sequence[str]) -> list[str]:
  """The servers in the order that a key prefers them.

  Where one leaves, the keys that preferred it move, and no others.
  """
  return sorted(urls, key=lambda url: _digest(key, url), reverse=True)


def least_crowded(key: Hashable, loads: Mapping[str, int]) -> str:
  """The server that a key prefers, of those below the bound.

  Args:
    key: what is placed.
    loads: requests of each server; at least one server.

  Returns:
    The first of `ranked` that one more request leaves within 1.25 times the
    mean, rounded up; there is always one.
  """
  bound = math.ceil(_SLACK * (sum(loads.values()) + 1) / len(loads))
  order = ranked(key, list(loads))
  return next(url for url in order if loads[url] < bound)


class Places:
  """Where each session is, the most recent ones."""

  def __init__(self):
    self._held: collections.OrderedDict[Hashable, str] = (
      collections.OrderedDict()
    )

  def place(self, session: Hashable, rid: str, loads: Mapping[str, int]) -> str:
    """The server for a request; a session moves only where its server left.

    Args:
      session: of the request; None for none.
      rid: of the request.
      loads: requests of each server that can be used.
    """
    if session is None:
      return least_crowded(rid, loads)
    held = self._held.get(session, '')
    if held not in loads:
      held = least_crowded(family(session), loads)
    self._held[session] = held
    self._held.move_to_end(session)
    if len(self._held) > _REMEMBERED:
      self._held.popitem(last=False)
    return held
