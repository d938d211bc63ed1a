"""Where requests go, and their seeds."""

import collections

import pytest

from arl.rollout.sglang import route as sglang_route

URLS = [f'http://worker-{i}' for i in range(4)]


def test_seeds_differ_by_request_and_are_the_same_anywhere():
  paths = [(step, prompt, 0) for step in range(20) for prompt in range(20)]
  seeds = {sglang_route.seed_of(7, path) for path in paths}
  assert len(seeds) == 400
  assert all(0 <= seed < 2**31 for seed in seeds)
  assert sglang_route.seed_of(7, (0, 1, 2)) == 630165242
  assert sglang_route.seed_of(8, (0, 1, 2)) != 630165242
  assert sglang_route.seed_of(7, ()) != sglang_route.seed_of(7, (0,))


def test_only_the_keys_of_a_server_that_leaves_move():
  keys = range(1000)
  before = {key: sglang_route.ranked(key, URLS)[0] for key in keys}
  after = {key: sglang_route.ranked(key, URLS[:-1])[0] for key in keys}
  moved = {key for key in keys if before[key] != after[key]}
  assert moved == {key for key in keys if before[key] == URLS[-1]}
  counts = collections.Counter(before.values())
  assert all(200 < counts[url] < 300 for url in URLS)


def test_no_server_gets_much_more_than_its_share():
  loads = dict.fromkeys(URLS, 0)
  for key in range(1000):
    loads[sglang_route.least_crowded(key, loads)] += 1
  assert sum(loads.values()) == 1000
  assert max(loads.values()) <= 1.25 * 1000 / 4 + 1
  assert sglang_route.least_crowded(0, {'a': 5}) == 'a'


def test_a_session_stays_while_its_server_does():
  places = sglang_route.Places()
  idle = dict.fromkeys(URLS, 0)
  first = places.place(('p', 1), 'r1', idle)
  crowded = idle | {first: 1000}
  assert places.place(('p', 1), 'r2', crowded) == first
  assert places.place(('p', 2), 'r3', crowded) != first
  without = {url: 0 for url in URLS if url != first}
  second = places.place(('p', 1), 'r4', without)
  assert second != first
  assert places.place(('p', 1), 'r5', idle) == second


def test_requests_without_a_session_spread():
  places = sglang_route.Places()
  idle = dict.fromkeys(URLS, 0)
  went = {places.place(None, f'r{i}', idle) for i in range(50)}
  assert went == set(URLS)


def test_old_sessions_are_forgotten(monkeypatch):
  monkeypatch.setattr(sglang_route, '_REMEMBERED', 10)
  places = sglang_route.Places()
  for i in range(30):
    places.place(i, 'r', {'a': 0})
  assert len(places._held) == 10


@pytest.mark.parametrize('count', [1, 2, 4])
def test_the_seeds_of_a_group_do_not_depend_on_the_servers(count):
  del count  # a seed is a function of the request alone
  seeds = [sglang_route.seed_of(7, (0, i)) for i in range(16)]
  assert len(set(seeds)) == 16


def test_a_group_goes_together_past_what_is_crowded():
  places, loads = sglang_route.Places(), dict.fromkeys(URLS, 0)
  together = []
  for task in range(200):
    went = []
    for sample in range(8):
      url = places.place((5, task, sample), 'r', loads)
      loads[url] += 1
      went.append(url)
    together.append(max(collections.Counter(went).values()) / 8)
  assert max(loads.values()) <= 1.25 * 1600 / 4 + 1
  assert sum(together) / len(together) > 0.8
  assert sglang_route.family('alone') == 'alone'
  assert sglang_route.family(('alone',)) == ('alone',)


def test_the_header_of_a_session_is_always_the_same():
  one = sglang_route.header((5, 1, 0))
  assert one == {'X-SMG-Routing-Key': 'fea68316daee208e'}
  keys = {
    sglang_route.header((5, 1, i))['X-SMG-Routing-Key'] for i in range(99)
  }
  assert len(keys) == 99
  assert sglang_route.header(None) == {}
