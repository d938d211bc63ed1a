"""Every syntax of calls: what is read, what is a fault, and round trips."""

import json
import time

import hypothesis
import hypothesis.strategies as st
import pytest

from arl.envs import call_syntax, calls

SCHEMA = {
  'type': 'object',
  'properties': {
    'n': {'type': 'integer'},
    'p': {'type': 'object'},
    's': {'type': 'string'},
  },
}
ONE_TEXT = {'type': 'object', 'properties': {'q': {'type': 'string'}}}
TOOLS = (
  calls.Tool('w', '', SCHEMA, lambda **arguments: ''),
  calls.Tool('find', '', ONE_TEXT, lambda q: q),
)
V = calls.Call('v', {})


def fault(words):
  return calls.Fault(f'error: {words}')


NO_JSON = fault('the call is no json object')
UNCLOSED = fault('a function or a parameter is not closed')
NO_INPUT = fault('no Action Input after the Action')
NO_OBJECT = fault('the Action Input is no json object')
GOOD_JSON = '{"name":"v","parameters":{}}'
GOOD_XML = '<tool_call>\n<function=v>\n</function>\n</tool_call>'
GOOD_REACT = 'Action: v\nAction Input: {}\n'


def xml(body, name='w'):
  return f'<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>'


def parameter(key, value):
  return f'<parameter={key}>\n{value}\n</parameter>\n'


# syntax, text, calls, truncated
TABLE = {
  'nothing': ('llama', 'just prose', (), False),
  'bare': ('llama', GOOD_JSON, (V,), False),
  'tagged': ('llama', f'so <|python_tag|>{GOOD_JSON}', (V,), False),
  'two, and tags in a string': (
    'llama',
    '{"name":"w","parameters":{"s":"}; <|python_tag|>{"}} ; ' + GOOD_JSON,
    (calls.Call('w', {'s': '}; <|python_tag|>{'}), V),
    False,
  ),
  'an answer in JSON': ('llama', '{"answer": {"name": "x"}}', (), False),
  'a comma too many': (
    'llama',
    '{"name":"w","parameters":{"name":"k","parameters":{}},}',
    (NO_JSON,),
    False,
  ),
  'unicode and escapes': (
    'llama',
    r'{"name":"w","parameters":{"s":"é \n \" {"}}',
    (calls.Call('w', {'s': 'é \n " {'}),),
    False,
  ),
  'good, broken': ('llama', GOOD_JSON + ';{"name":}', (V, NO_JSON), False),
  'broken, good': ('llama', '{"name":};' + GOOD_JSON, (NO_JSON, V), False),
  'cut': ('llama', GOOD_JSON + ';{"name":"w","par', (V,), True),
  'cut in a string': ('llama', '{"name":"w","parameters":{"s":"}', (), True),
  'cut after the tag': ('llama', '<|python_tag|>', (), True),
  'quoted in a thought': (
    'llama',
    f'<think>{GOOD_JSON}</think>\n{GOOD_JSON}',
    (V,),
    False,
  ),
  'still thinking': ('llama', f'<think>{GOOD_JSON}', (), False),
  'a thought that the template opened': (
    'llama',
    f'<|python_tag|>{GOOD_JSON} or</think>{GOOD_JSON}',
    (V,),
    False,
  ),
  'arguments as a string': (
    'llama',
    r'{"name":"w","parameters":"{\"n\": [1, \"}\"]}"}',
    (calls.Call('w', {'n': [1, '}']}),),
    False,
  ),
  'the other word for parameters': (
    'llama',
    '{"name":"v","arguments":{}}',
    (V,),
    False,
  ),
  'prose after': (
    'llama',
    GOOD_JSON + ' ok',
    (fault('only ; and another call may follow a call'),),
    False,
  ),
  'nothing, xml': ('coder', 'just prose', (), False),
  'typed': (
    'coder',
    xml(
      parameter('n', 3)
      + parameter('p', '{"a": [1]}')
      + parameter('s', '3')
      + parameter('other', '3')
    ),
    (calls.Call('w', {'n': 3, 'p': {'a': [1]}, 's': '3', 'other': '3'}),),
    False,
  ),
  'not of its type': (
    'coder',
    xml(parameter('n', 'three')),
    (calls.Call('w', {'n': 'three'}),),
    False,
  ),
  'closing tags in a value': (
    'coder',
    xml(parameter('s', 'close </parameter> </tool_call> </function> ok'))
    + GOOD_XML,
    (
      calls.Call('w', {'s': 'close </parameter> </tool_call> </function> ok'}),
      V,
    ),
    False,
  ),
  'a call in a value': (
    'coder',
    xml(parameter('s', GOOD_XML)),
    (calls.Call('w', {'s': GOOD_XML}),),
    False,
  ),
  'lines in a value': (
    'coder',
    xml(parameter('s', '\n a\n\nb \n')),
    (calls.Call('w', {'s': '\n a\n\nb \n'}),),
    False,
  ),
  'no block around': ('coder', '<function=v></function>', (V,), False),
  'good, broken, xml': (
    'coder',
    GOOD_XML + '<function=w><parameter=s>1</function>',
    (V, UNCLOSED),
    False,
  ),
  'broken, good, xml': (
    'coder',
    '<tool_call>\n<function=w>\n' + GOOD_XML,
    (UNCLOSED, V),
    False,
  ),
  'no function': (
    'coder',
    '<tool_call>{}</tool_call>' + GOOD_XML,
    (fault('no function in the tool_call'), V),
    False,
  ),
  'cut, xml': ('coder', GOOD_XML + '<function=w>\n<par', (V,), True),
  'cut in a value': ('coder', '<function=w><parameter=s>12', (), True),
  'cut before anything': ('coder', '<tool_call>', (), True),
  'quoted in a thought, xml': (
    'coder',
    f'<think>{GOOD_XML}</think>{GOOD_XML}',
    (V,),
    False,
  ),
  'a thought that the template opened, xml': (
    'coder',
    f'{GOOD_XML} or</think>{GOOD_XML}',
    (V,),
    False,
  ),
  'still thinking, xml': ('coder', f'<think>{GOOD_XML}', (), False),
  'nothing, react': ('react', 'Thought: well', (), False),
  'react': (
    'react',
    'Thought: look\nAction: w\nAction Input: {"s": "x\nObservation: y"}\n',
    (calls.Call('w', {'s': 'x\nObservation: y'}),),
    False,
  ),
  'two actions': ('react', GOOD_REACT * 2, (V, V), False),
  'one text': (
    'react',
    'Action: find\nAction Input: what is it?\nObservation: 3',
    (calls.Call('find', {'q': 'what is it?'}),),
    False,
  ),
  'no object': ('react', 'Action: w\nAction Input: 3\n', (NO_OBJECT,), False),
  'a comma too many, react': (
    'react',
    'Action: w\nAction Input: {"n": 1,}\n' + GOOD_REACT,
    (NO_OBJECT, V),
    False,
  ),
  'no input': (
    'react',
    'Action: w\nThought: hm\n' + GOOD_REACT,
    (NO_INPUT, V),
    False,
  ),
  'cut, react': ('react', GOOD_REACT + 'Action: w\n', (V,), True),
  'cut before the input': ('react', 'Action: w\nAction Input:', (), True),
  'cut in the input': ('react', 'Action: w\nAction Input: {"s": "}', (), True),
  'made up': ('react', f'Observation: 3\n{GOOD_REACT}', (), False),
  'answered': ('react', f'Final Answer: 3\n{GOOD_REACT}', (), False),
  'quoted in a thought, react': (
    'react',
    f'<think>\n{GOOD_REACT}</think>\n{GOOD_REACT}',
    (V,),
    False,
  ),
  'positional': ('positional', 'find(it)', (calls.Call('find', {'q': 'it'}),),
                 False),
  'an answer': ('positional', '=300', (), False),
  'not closed': (
    'positional',
    'find(it',
    (fault('use name(arguments)'),),
    False,
  ),
}  # fmt: skip


@pytest.mark.parametrize('case', TABLE)
def test_reading(case):
  syntax, text, expected, truncated = TABLE[case]
  read = call_syntax.SYNTAXES[syntax].read(text, TOOLS)
  assert read[:2] == (expected, truncated)


@pytest.mark.parametrize(
  'syntax, text, rest',
  [
    ('hermes', 'a<tool_call>{"name":"v","arguments":{}}</tool_call>b', 'ab'),
    ('hermes', 'a<tool_call>{}</tool_call>b', 'a<tool_call>{}</tool_call>b'),
    ('llama', f'a<|python_tag|>{GOOD_JSON}', 'a'),
    ('llama', '{"answer": 3}', '{"answer": 3}'),
    ('coder', f'a{GOOD_XML}b', 'ab'),
    ('react', f'Thought: a\n{GOOD_REACT}', 'Thought: a\n\n'),
    ('positional', 'find(it)', ''),
    ('positional', 'find(it', 'find(it'),
  ],
)
def test_the_rest_is_what_is_no_call(syntax, text, rest):
  assert call_syntax.SYNTAXES[syntax].read(text, TOOLS).rest == rest


word = st.text(max_size=12) | st.sampled_from(
  ['</tool_call>', '</function>', '{"', '\nObservation: 1', ';', 'null', '3']
)
value = st.recursive(
  st.none() | st.booleans() | st.integers() | word,
  lambda inner: st.lists(inner) | st.dictionaries(word, inner),
  max_leaves=6,
)
written = st.lists(
  st.builds(
    calls.Call,
    st.sampled_from(['w', 'find', 'other']),
    st.fixed_dictionaries(
      {}, optional={'s': word, 'n': st.integers(),
                    'p': st.dictionaries(word, value)}),
  ),
  min_size=1,
  max_size=3,
)  # fmt: skip


@pytest.mark.parametrize('name', ['hermes', 'llama', 'coder', 'react'])
@hypothesis.settings(deadline=None)
@hypothesis.given(written)
def test_what_is_written_reads_back(name, written):
  if name == 'coder':  # what has no type is text, and text is not escaped
    written = [call._replace(name='w') for call in written]
    hypothesis.assume(all('<' not in str(call.arguments) for call in written))
  syntax = call_syntax.SYNTAXES[name]
  read = syntax.read(syntax.write(written), TOOLS)
  assert read[:2] == (tuple(written), False)
  assert not read.rest.strip()


@hypothesis.given(st.integers(0, 999), st.text('abc', min_size=1))
def test_what_is_written_in_order_reads_back(n, s):
  schema = {**SCHEMA, 'properties': {'n': {'type': 'integer'},
                                     's': {'type': 'string'}}}  # fmt: skip
  tools = [calls.Tool('w', '', schema, lambda **arguments: '')]
  call = calls.Call('w', {'n': n, 's': s})
  syntax = call_syntax.SYNTAXES['positional']
  assert syntax.read(syntax.write([call]), tools).calls == (call,)


PIECES = [
  '<tool_call>', '</tool_call>', '<think>', '</think>', '<function=w>',
  '</function>', '<parameter=s>', '</parameter>', '<|python_tag|>', ';', '\n',
  'Action: w', 'Action Input: ', 'Observation:', *'{}[]",:\\ a(',
]  # fmt: skip


@pytest.mark.parametrize('name', call_syntax.SYNTAXES)
@hypothesis.settings(deadline=None)
@hypothesis.given(st.lists(st.sampled_from(PIECES)))
def test_reading_never_raises(name, pieces):
  read = call_syntax.SYNTAXES[name].read(''.join(pieces), TOOLS)
  for call in read.calls:
    assert isinstance(call, calls.Fault) or isinstance(call.arguments, dict)
  json.dumps(read.rest)


UNITS = (
  '{', '"', '{"a":', '{"', '{};', '{"name":"v","parameters":{}};', ';', ' ',
  '<|python_tag|>', '<|python_tag|>{', '<tool_call>', '<function=w>',
  '<function=w></function>', '<function=w><parameter=s>', '<parameter=s>',
  '</parameter>', '</parameter> ', '</function>', '</tool_call>',
  '<parameter=s></parameter>', '<function=', 'Action: w\n',
  'Action: w\nAction Input: {"\n', 'Action Input: {\n', 'Action:', 'Thought:\n',
  'Action: w\nAction Input: \n', '<think>', '</think>', '\\', 'w(',
)  # fmt: skip


@pytest.mark.parametrize('name', call_syntax.SYNTAXES)
@pytest.mark.parametrize('unit', UNITS)
def test_junk_takes_linear_time(name, unit):
  junk = unit * (100_000 // len(unit))
  starts = ('', '<|python_tag|>', '<function=w><parameter=s>',
            'Action: w\nAction Input: {"')  # fmt: skip
  began = time.process_time()
  for start in starts:
    call_syntax.SYNTAXES[name].read(start + junk, TOOLS)
  assert time.process_time() - began < 2.0
