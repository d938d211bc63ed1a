"""What rollouts wait for, how old they get and what caches hold of them.

  python -m experiments.studies.scheduling [--quick] [--seeds=N]

No model: rollouts of heavy-tailed length on a clock of its own. The window over
their order, the gate of their age and the routing of requests are those of
arl.rollout. Prints a JSON object a line, with 95 % t intervals over seeds, and
rewrites experiments/results/scheduling.md.
"""

import heapq
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from arl.rollout import simulated
from arl.rollout.sglang import route
from experiments.studies import runs

HEADER = ('what', 'setting', 'number', 'value')
WIDTHS = 1, 4, 8, 16, 64, math.inf
LAGS = 0, 1, 2, 4, 8
PROMPT, OBSERVED = 200, 50  # tokens of a prompt, and of an observation
SERVERS = tuple(f'http://server-{i}' for i in range(4))
# A route is (session, number of the request, requests of each server, random
# generator) -> a server.
Route = Callable[[Hashable, int, Mapping[str, int], np.random.Generator], str]


def lengths(rng: np.random.Generator) -> float:
  """Seconds of a rollout: a median of one, a mean of 1.65."""
  return float(rng.lognormal(0, 1))


def waited(width: float, seed: int) -> dict[str, float]:
  """What a window costs and what it keeps, over the first updates of a run.

  The distance is that of Kolmogorov and Smirnov, of the seconds of what was
  trained on to those of all that was issued.
  """
  plan = simulated.Plan(
    lengths, updates=24, per_update=8, concurrent=24, lag=16, width=width
  )
  seen = simulated.run(plan, seed)
  used = [one.seconds for one in seen.used]
  return {
    'idle': seen.waiting / seen.seconds,
    'distance': float(stats.ks_2samp(used, seen.issued).statistic),
    'reorder': max(one.number - one.head for one in seen.used),
  }


def aged(lag: int, seed: int) -> dict[str, float]:
  """What a bound on age costs: throughput, the oldest, the share given up."""
  plan = simulated.Plan(
    lengths, updates=200, per_update=8, concurrent=48, lag=lag, fails=0.05
  )
  seen = simulated.run(plan, seed)
  return {
    'throughput': len(seen.used) / seen.seconds,
    'oldest': max(one.version - one.began for one in seen.used),
    'given_up': seen.lost['stale'] / len(seen.issued),
  }


# --- Routing ------------------------------------------------------------------


class Asked(NamedTuple):
  """What is known of a conversation.

  Attributes:
    session: (task, sample).
    turn: that is asked for, from 0.
    turns: that it will have.
    tokens: of its context now.
  """

  session: tuple[int, int]
  turn: int
  turns: int
  tokens: int


def by_session() -> Route:
  """The routing of arl's client."""
  places = route.Places()

  def place(session, number, loads, rng):
    del rng
    return places.place(session, str(number), loads)

  return place


def at_random() -> Route:
  """Any server for any request."""
  return lambda session, number, loads, rng: str(rng.choice(list(loads)))


def least_loaded() -> Route:
  """The server with the fewest requests, whoever asks."""

  def place(session, number, loads, rng):
    del session, number
    fewest = min(loads.values())
    return str(rng.choice([url for url, n in loads.items() if n == fewest]))

  return place


ROUTES = {
  'by session': by_session,
  'at random': at_random,
  'least loaded': least_loaded,
}


def routed(
  place: Route, seed: int, *, tasks: int = 200, concurrent: int = 128
) -> dict[str, float]:
  """What the servers' caches hold of contexts, and how even their loads are.

  Groups of eight conversations of two to eight turns, so many of them at a
  time; a server remembers all that it computed.

  Args:
    place: chooses servers.
    seed: of lengths and times.
    tasks: groups.
    concurrent: conversations at a time.

  Returns:
    Of what had been computed of contexts, from the second turn on, the share
    that the server asked has; how often it has all of that; the same share of
    prompts; and the mean, over time, of the largest number of requests on a
    server by the mean of all.
  """
  rng, loads = np.random.default_rng(seed), dict.fromkeys(SERVERS, 0)
  waiting = [
    Asked((task, sample), 0, int(rng.integers(2, 9)), PROMPT)
    for task in reversed(range(tasks))
    for sample in reversed(range(8))
  ]
  held: dict[tuple[str, Hashable], int] = {}
  events: list[tuple[float, int, str, Asked]] = []  # '' before it is asked
  hits, whole, uneven = np.zeros((2, 2)), [], []  # by turn: there, of all

  def ask(one: Asked, number: int, now: float) -> None:
    url = place(one.session, number, loads, rng)
    own = held.get((url, one.session), 0)
    there = max(own, held.get((url, one.session[0]), 0))
    known = one.tokens - OBSERVED if one.turn else one.tokens
    hits[int(one.turn > 0)] += there, known
    if one.turn:
      whole.append(there == known)
    loads[url] += 1
    fresh = int(rng.lognormal(4, 1)) + 1
    held[url, one.session] = one.tokens + fresh
    held[url, one.session[0]] = PROMPT
    tokens = one.tokens + fresh + OBSERVED
    grown = one._replace(turn=one.turn + 1, tokens=tokens)
    heapq.heappush(events, (now + fresh, number, url, grown))

  for number in range(concurrent):
    heapq.heappush(events, (0.0, number, '', waiting.pop()))
  while events:
    now, _, url, one = heapq.heappop(events)
    number += 1
    if not url:
      ask(one, number, now)
      continue
    loads[url] -= 1
    if one.turn < one.turns:  # the environment takes its time
      later = now + rng.lognormal(3, 1)
      heapq.heappush(events, (later, number, '', one))
    elif waiting:
      heapq.heappush(events, (now, number, '', waiting.pop()))
    if waiting and any(loads.values()):  # as long as there is more to do
      uneven.append(max(loads.values()) * len(loads) / sum(loads.values()))
  return {
    'hits': hits[1, 0] / hits[1, 1],
    'whole': float(np.mean(whole)),
    'prompts': hits[0, 0] / hits[0, 1],
    'imbalance': float(np.mean(uneven)),
  }


# --- Results ------------------------------------------------------------------


def lines(seeds: Sequence[int]) -> Iterator[list[str]]:
  """Prints the lines of the study; gives the rows of its table.

  Args:
    seeds: of the simulations.
  """
  for width in WIDTHS:
    made = [waited(width, seed) for seed in seeds]
    bound = f'< {width:g}'
    aims = {'idle': '', 'distance': '', 'reorder': bound}
    yield from _tell('window', f'{width:g}', made, aims, seeds)
  for lag in LAGS:
    made = [aged(lag, seed) for seed in seeds]
    aims = {'throughput': '', 'oldest': f'<= {lag}', 'given_up': ''}
    yield from _tell('lag', str(lag), made, aims, seeds)
  for name, make in ROUTES.items():
    made = [routed(make(), seed) for seed in seeds]
    own = name == 'by session'
    aims = {
      'hits': '>= 0.99' if own else '',
      'whole': '',
      'prompts': '',
      'imbalance': '<= 1.3' if own else '',
    }
    yield from _tell('route', name, made, aims, seeds)


_UNITS = {
  'idle': 'of the time',
  'distance': '',
  'reorder': 'rollouts',
  'throughput': 'rollouts/s',
  'oldest': 'versions',
  'given_up': 'of rollouts',
  'hits': 'of tokens',
  'whole': 'of turns',
  'prompts': 'of tokens',
  'imbalance': 'x',
}


def _tell(
  what: str,
  setting: str,
  made: Sequence[Mapping[str, Any]],
  aims: Mapping[str, str],
  seeds: Sequence[int],
) -> Iterator[list[str]]:
  for name, aim in aims.items():
    value, interval = runs.mean([float(one[name]) for one in made])
    key = f'scheduling/{what}/{setting.replace(" ", "_")}/{name}'
    runs.line(key, value, _UNITS[name], aim, seeds, interval)
    shown = runs.spread(value, interval)
    yield [what, setting, f'{name} {_UNITS[name]}'.strip(), shown]


def main(argv: list[str]) -> None:
  del argv
  seeds = runs.seeds()
  body = list(lines(seeds))
  if not runs.quick():
    path = runs.RESULTS / 'scheduling.md'
    runs.write_table(path, HEADER, body, seeds)


if __name__ == '__main__':
  runs.start(main)
