"""Tool calls as text: tables of faults, round trips, junk in linear time."""

import json
import time
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from arl.envs import calls

PAIR = {
  'type': 'object',
  'properties': {
    'n': {'type': 'integer', 'minimum': 0},
    'x': {'type': 'number'},
    's': {'type': 'string', 'enum': ['on', 'off']},
  },
  'required': ['n'],
  'additionalProperties': False,
}
TOOLS = (
  calls.Tool('set', 'sets', PAIR, lambda **arguments: str(arguments)),
  calls.Tool('now', 'tells', {'type': 'object'}, lambda: 'noon'),
)


@pytest.mark.parametrize(
  'text, call',
  [
    ('set(3)', ('set', {'n': 3})),
    ('set(+3, -2.5e1)', ('set', {'n': 3, 'x': -25.0})),
    ('  set( 3 ,1, on )\n', ('set', {'n': 3, 'x': 1.0, 's': 'on'})),
    ('now()', ('now', {})),
    ('now(  )', ('now', {})),
  ],
)
def test_parse(text, call):
  assert calls.parse(text, TOOLS) == call


def test_parse_converts_types():
  read = calls.parse('set(3, 1)', TOOLS)
  assert isinstance(read, calls.Call)
  assert [type(value) for value in read.arguments.values()] == [int, float]


@pytest.mark.parametrize(
  'text, error',
  [
    ('', 'error: use name(arguments)'),
    ('set', 'error: use name(arguments)'),
    ('set(3', 'error: use name(arguments)'),
    ('set(3) ok', 'error: use name(arguments)'),
    ('please set(3)', 'error: use name(arguments)'),
    ('(3)', 'error: use name(arguments)'),
    ('foo(3)', "error: no tool 'foo'; tools: set, now"),
    ('f' * 999 + '()', "error: no tool 'ffffffffffff'; tools: set, now"),
    ('set()', "error: set: 'n' is a required property"),
    ('set(3.5)', "error: '3.5' is no integer for n"),
    ('set(1_0)', "error: '1_0' is no integer for n"),
    ('set(\u0663)', "error: '?' is no integer for n"),
    ('set(,)', "error: '' is no integer for n"),
    ('set(' + '9' * 9999 + ')', "error: '999999999999' is no integer for n"),
    ('set(3, nan)', "error: 'nan' is no number for x"),
    ('set(3, 1e999)', "error: '1e999' is no number for x"),
    ('set(3, 1, up)', "error: set.s: 'up' is not one of ['on', 'off']"),
    ('set(-1)', 'error: set.n: -1 is less than the minimum of 0'),
    ('set(1, 2, on, 4)', 'error: use set(n, x, s)'),
    ('now(1)', 'error: use now()'),
  ],
)
def test_parse_faults(text, error):
  assert calls.parse(text, TOOLS) == calls.Fault(error)


def test_parse_refuses_a_tool_it_cannot_spell():
  schema = {'type': 'object', 'properties': {'l': {'type': 'array'}}}
  tool = calls.Tool('sort', '', schema, lambda: '')
  with pytest.raises(ValueError, match="'l' has type 'array'"):
    calls.parse('sort(1)', [tool])


@hypothesis.given(st.text())
def test_parse_never_raises(text):
  for candidate in (text, f'set({text})', f'{text}()'):
    read = calls.parse(candidate, TOOLS)
    assert isinstance(read, calls.Call) or read.error.startswith('error: ')


@hypothesis.given(st.integers(0, 10**90), st.floats(-1e90, 1e90))
def test_parse_reads_back_numbers(n, x):
  read = calls.parse(f'set({n}, {x!r})', TOOLS)
  assert read == calls.Call('set', {'n': n, 'x': x})


def test_invoke():
  good = calls.Call('set', {'n': 3})
  assert calls.invoke(good, TOOLS) == "{'n': 3}"
  assert calls.invoke(calls.Call('now', {}), TOOLS) == 'noon'
  assert calls.invoke(calls.Fault('error: no'), TOOLS) == 'error: no'
  unchecked = calls.Call('set', {'n': 3, 'm': 4})
  assert calls.invoke(unchecked, TOOLS).startswith('error: set: Additional pro')
  assert calls.invoke(calls.Call('foo', {}), TOOLS).startswith('error: no tool')


def test_invoke_lets_a_broken_tool_raise():
  def silent() -> Any:
    return None

  def broken() -> Any:
    return 1 / 0

  tool = calls.Tool('f', '', {'type': 'object'}, broken)
  with pytest.raises(ZeroDivisionError):
    calls.invoke(calls.Call('f', {}), [tool])
  with pytest.raises(TypeError, match="tool 'f' returned NoneType"):
    calls.invoke(calls.Call('f', {}), [tool._replace(run=silent)])


def wrapped(body):
  return f'<tool_call>{body}</tool_call>'


CUT = '<tool_call>{"name":"w","argum'
GOOD = wrapped('{"name":"v","arguments":{}}')
V = calls.Call('v', {})
NO_JSON = calls.Fault('error: the call is no json object')
NO_END = calls.Fault('error: no </tool_call> after the object')
NO_CALL = calls.Fault('error: a call is an object with name and arguments')
NO_OBJECT = calls.Fault('error: the arguments of a call are an object')

TABLE = {
  'nothing': ('just prose', (), False),
  'closing tag in a string': (
    wrapped(
      '{"name":"w","arguments":'
      '{"p":{"a":[1,2]},"t":"close with </tool_call> ok"}}'
    )
    + GOOD,
    (
      calls.Call('w', {'p': {'a': [1, 2]}, 't': 'close with </tool_call> ok'}),
      V,
    ),
    False,
  ),
  'a comma too many, and no phantom of an inner object': (
    wrapped('{"name":"w","arguments":{"name":"k","arguments":{}},}'),
    (NO_JSON,),
    False,
  ),
  'unicode and escapes': (
    wrapped(r'{"name":"w","arguments":{"s":"é \n \" {"}}'),
    (calls.Call('w', {'s': 'é \n " {'}),),
    False,
  ),
  'a line break as it is': (
    wrapped('{"name":"w","arguments":{"s":"a\nb"}}'),
    (calls.Call('w', {'s': 'a\nb'}),),
    False,
  ),
  'good, broken': (GOOD + wrapped('{"name":}'), (V, NO_JSON), False),
  'broken, good': (wrapped('{"name":"w') + GOOD, (NO_JSON, V), False),
  'never closed, good': (CUT + GOOD, (NO_JSON, V), False),
  'closed object, no tag, good': (
    '<tool_call>{"name":"w","arguments":{}}' + GOOD,
    (NO_END, V),
    False,
  ),
  'prose between object and tag': (
    wrapped('{"name":"w","arguments":{}} ok'),
    (NO_END,),
    False,
  ),
  'cut': (CUT, (), True),
  'cut after a good one': (GOOD + CUT, (V,), True),
  'cut in the closing tag': (GOOD[:-3], (), True),
  'cut before anything': ('<tool_call>', (), True),
  'cut after a broken one': (wrapped('?') + CUT, (NO_JSON,), True),
  'in a think block': (f'<think>{GOOD}</think>so', (), False),
  'after a think block': (f'<think>{GOOD}</think>{GOOD}', (V,), False),
  'in a think block that the template opened': (
    f'{GOOD} or </think>{GOOD}{GOOD}',
    (V, V),
    False,
  ),
  'a stray end of thinking': (
    f'<think></think>{GOOD}</think>',
    (V,),
    False,
  ),
  'still thinking': (f'<think>{GOOD}{CUT}', (), False),
  'think tags in a string': (
    wrapped('{"name":"w","arguments":{"s":"<think>"}}') + GOOD,
    (calls.Call('w', {'s': '<think>'}), V),
    False,
  ),
  'arguments as a string': (
    wrapped(r'{"name":"w","arguments":"{\"k\": [1, \"}\"]}"}'),
    (calls.Call('w', {'k': [1, '}']}),),
    False,
  ),
  'arguments as a string with more in it': (
    wrapped(r'{"name":"w","arguments":"{} {}"}'),
    (NO_OBJECT,),
    False,
  ),
  'arguments as an empty string': (
    wrapped('{"name":"w","arguments":""}'),
    (NO_OBJECT,),
    False,
  ),
  'arguments as a list': (
    wrapped('{"name":"w","arguments":[1]}'),
    (NO_OBJECT,),
    False,
  ),
  'no arguments': (wrapped('{"name":"w"}'), (NO_CALL,), False),
  'no object': (wrapped('["name", "arguments"]'), (NO_CALL,), False),
  'a number for a name': (
    wrapped('{"name":1,"arguments":{}}'),
    (calls.Fault('error: the name of a call is a string'),),
    False,
  ),
  'not JSON after all': (
    wrapped('{"name":"w","arguments":{"x":NaN}}'),
    (NO_JSON,),
    False,
  ),
  'beyond any float': (
    wrapped('{"name":"w","arguments":{"x":1e999}}'),
    (NO_JSON,),
    False,
  ),
  'half of a surrogate pair': (
    wrapped(r'{"name":"w","arguments":{"x":"\ud83d"}}'),
    (NO_JSON,),
    False,
  ),
  'both of a surrogate pair': (
    wrapped(r'{"name":"w","arguments":{"x":"\ud83d\ude00"}}'),
    (calls.Call('w', {'x': '😀'}),),
    False,
  ),
  'nested too deep': (
    wrapped('{"name":"w","arguments":' + '{"a":' * 50_000 + '1'),
    (NO_JSON,),
    False,
  ),
}


@pytest.mark.parametrize('case', TABLE)
def test_json_calls(case):
  text, expected, truncated = TABLE[case]
  assert calls.json_calls(text)[:2] == (expected, truncated)


def test_a_deep_but_readable_argument_is_an_observation():
  deep = '{"a":' * 200 + '1' + '}' * 200
  text = wrapped('{"name":"set","arguments":{"n":' + deep + '}}')
  (call,) = calls.json_calls(text).calls
  observation = calls.invoke(call, TOOLS)
  assert observation.startswith('error: set')
  assert len(observation) < 120


tag = ['<tool_call>', '</tool_call>', '<think>', '</think>']
word = st.text(max_size=20) | st.sampled_from(tag)
scalar: st.SearchStrategy[Any] = st.one_of(
  st.none(),
  st.booleans(),
  st.integers(),
  st.floats(allow_nan=False, allow_infinity=False),
  word,
)
value = st.recursive(
  scalar,
  lambda inner: st.lists(inner) | st.dictionaries(word, inner),
  max_leaves=10,
)
prose = st.text(max_size=30).filter(lambda text: '<' not in text)


@hypothesis.settings(deadline=None)
@hypothesis.given(
  st.lists(st.tuples(word, st.dictionaries(word, value), prose), max_size=4),
  prose,
  st.booleans(),
  st.sampled_from([None, 2]),
)
def test_any_object_in_prose_reads_back(written, before, ascii, indent):
  text = before
  for name, arguments, after in written:
    call = {'name': name, 'arguments': arguments}
    body = json.dumps(call, ensure_ascii=ascii, indent=indent)
    text += wrapped(f'\n{body}\n') + after
  expected = tuple(
    calls.Call(name, arguments) for name, arguments, _ in written
  )
  assert calls.json_calls(text)[:2] == (expected, False)


@hypothesis.given(st.lists(st.sampled_from([*tag, *'{}[]",:\\ a'])))
def test_json_calls_never_raises(pieces):
  for call in calls.json_calls(''.join(pieces)).calls:
    assert isinstance(call, calls.Fault) or isinstance(call.arguments, dict)


UNITS = (
  '{',
  '[',
  '"',
  '{"a":',
  '<tool_call>',
  '<tool_call>{',
  '<tool_call>{"',
  '<tool_call>["',
  '<tool_call>[" ","',
  '<tool_call>{"\\"',
  '<tool_call> ',
  '<tool_call>{}',
  '<tool_call>{</tool_call>',
  '</tool_call>',
  '<think>',
  '</think>',
  'f(',
  'now(',
  ',',
  ' ',
  '9',
)


@pytest.mark.parametrize('unit', UNITS)
def test_junk_takes_linear_time(unit):
  junk = unit * (100_000 // len(unit))
  started = time.process_time()
  for text in (junk, '<tool_call>' + junk, '<tool_call>{"' + junk):
    calls.json_calls(text)
    calls.json_calls(text + '</tool_call>')
  for text in (junk, f'now({junk})', f'set({junk})', f'set({junk}'):
    calls.parse(text, TOOLS)
  assert time.process_time() - started < 2.0
