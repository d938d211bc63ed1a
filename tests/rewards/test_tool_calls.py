"""Tool calls: matching, scale, form and shaping."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl.rewards import tool_calls

A = tool_calls.Call('a', {'x': 1, 'y': 'é'})
B = tool_calls.Call('b', {})
THOUGHT = '<think>t</think>'
CALLED = (
  f'{THOUGHT}\n<tool_call>\n{{"name": "a", "parameters": {{"x": 1, "y": "é"}}}}'
  '\n{"name": "b", "parameters": {}}\n</tool_call>'
)


def test_reading():
  assert tool_calls.read(CALLED) == [A, B]
  assert tool_calls.read('<tool_call>\n{"name": "b"}\n</tool_call>') == [B]


@pytest.mark.parametrize(
  'text',
  [
    '',
    '{"name": "b", "parameters": {}}',
    '<tool_call>\n{"name": "b"',
    '<tool_call>\n{"name": "b"}\nso\n</tool_call>',
    '<tool_call>\n["b"]\n</tool_call>',
    '<tool_call>\n{"name": 3}\n</tool_call>',
    '<tool_call>\n{"name": "b", "parameters": "{}"}\n</tool_call>',
  ],
)
def test_what_cannot_be_read_is_the_worst(text):
  assert tool_calls.read(text) is None
  assert tool_calls.correctness(None, [A]) == -3


@pytest.mark.parametrize(
  'calls, golds, wanted',
  [
    ([A, B], [A, B], 3),
    ([B, A], [A, B], 3),
    ([B], [B], 3),
    ([], [B], -3),
    ([A], [], 0),
    (None, [], 0),
    ([tool_calls.Call('a', {'x': True, 'y': 'é'})], [A], 1.5),
    ([tool_calls.Call('a', {'z': 1})], [A], -1.5),
  ],
)
def test_correctness(calls, golds, wanted):
  assert tool_calls.correctness(calls, golds) == pytest.approx(wanted)


def test_the_matching_is_the_best_one():
  """Taken in turn, the first right call would take the second one's match."""
  loose = tool_calls.Call('a', {'x': 1})
  golds = [loose, A]
  calls = [A, tool_calls.Call('a', {'x': 2})]
  in_turn = (1 + (0.5 + 1) + 0.5) / (1 + 2 + 3)
  score = tool_calls.correctness(calls, golds)
  assert score == pytest.approx(6 * (1 + 1 + 3) / 6 - 3)
  assert score > 6 * in_turn - 3


CALL = st.builds(
  tool_calls.Call,
  st.sampled_from('ab'),
  st.dictionaries(st.sampled_from('xyz'), st.integers(0, 1), max_size=3),
)
CALLS = st.lists(CALL, max_size=3)


@given(CALLS, CALLS)
def test_bounds_and_order(calls, golds):
  score = tool_calls.correctness(calls, golds)
  assert -3 <= score <= 3
  if golds:
    assert tool_calls.correctness(golds, golds) == pytest.approx(3)
  orders = itertools.permutations(calls)
  assert all(
    tool_calls.correctness(each, golds) == pytest.approx(score)
    for each in orders
  )


@pytest.mark.parametrize(
  'text, golds, response, wanted',
  [
    (CALLED, [A, B], False, 4),
    (CALLED + ' so', [A, B], False, 3),
    (CALLED + '\n<response>r</response>', [A, B], True, 4),
    (CALLED, [A, B], True, 3),
    (f'{THOUGHT}\n<response>r</response>', [], True, 1),
    (THOUGHT + CALLED, [A, B], False, 3),
    ('', [A], False, -3),
  ],
)
def test_tool_rl(text, golds, response, wanted):
  assert tool_calls.tool_rl(text, golds, response) == wanted


@given(st.text(), CALLS, st.booleans())
def test_tool_rl_is_bounded(text, golds, response):
  assert -3 <= tool_calls.tool_rl(text, golds, response) <= 4


@pytest.mark.parametrize(
  'calls, needed, wanted',
  [
    ([], '', 0),
    ([A], 'a', 0.1),
    ([A, B], 'a', 0.1),
    ([A, A], 'a', 0.05),
    ([A, tool_calls.Call('a', {'x': 2}), A], 'a', 0.1),
    ([tool_calls.Call('c', {})], 'a', -0.3),
    ([None] * 9, 'a', -0.5),
  ],
)
def test_shaping(calls, needed, wanted):
  score = tool_calls.shaping(calls, ['a', 'b'], needed)
  assert score == pytest.approx(wanted)
