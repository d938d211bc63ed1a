"""Calls spelled as Python: what is read, what is refused, nothing is run."""

import time

import hypothesis
import hypothesis.strategies as st
import pytest

from arl.envs import call_syntax_python, calls

Call = call_syntax_python.Call


@pytest.mark.parametrize(
  'text, made',
  [
    ('[f(a=1)]', [Call('f', (), {'a': 1})]),
    ('f(a=1)', [Call('f', (), {'a': 1})]),
    ('f(a=1), g()', [Call('f', (), {'a': 1}), Call('g', (), {})]),
    ('```python\n[f()]\n```', [Call('f', (), {})]),
    ("[a.b.c('x', -2, k=None)]", [Call('a.b.c', ('x', -2), {'k': None})]),
    ('[f(a=[1, (2.5, True)])]', [Call('f', (), {'a': [1, (2.5, True)]})]),
    ("[f(a={'b': {}, 1: 'c'})]", [Call('f', (), {'a': {'b': {}, 1: 'c'}})]),
    ("[f(a='][)(')]", [Call('f', (), {'a': '][)('})]),
    ('[]', []),
    ('', []),
  ],
)
def test_what_is_read(text, made):
  assert call_syntax_python.read(text) == tuple(made)


@pytest.mark.parametrize(
  'text',
  [
    'I cannot do that.',
    '[f(a=1)',
    '[f(a=b)]',
    '[f(a=g())]',
    '[f(a=1+1)]',
    '[f(a=-True)]',
    '[f(a=~1)]',
    "[f(a=f'{1}')]",
    "[f(a=b'x')]",
    '[f(a=1j)]',
    '[f(a=...)]',
    '[f(**{})]',
    '[f(*[1])]',
    '[f(a={1})]',
    '[f(a={[]: 1})]',
    '[f(a={**{}})]',
    '[f()()]',
    '[(lambda: 1)()]',
    '[x for x in y]',
    '[1]',
    '{}',
    'f(a=1, a=2)',
    '\x00',
    '\ud800',
    '[' * 30_000,
    '(' * 100,
    '[f(a=' + '-' * 15_000 + '1)]',
    '[f(a=' + '9' * 10_000 + ')]',
    '[f' + '.a' * 9_000 + '()]',
    '[f(a=' + '[{' * 19 + ']',
  ],
)
def test_faults(text):
  began = time.monotonic()
  fault = call_syntax_python.read(text)
  assert isinstance(fault, calls.Fault)
  assert fault.error.startswith('error: ')
  assert time.monotonic() - began < 20


VALUES = st.recursive(
  st.none()
  | st.booleans()
  | st.integers(-(10**20), 10**20)
  | st.floats(allow_nan=False, allow_infinity=False)
  | st.text(),
  lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
  max_leaves=10,
)


@hypothesis.settings(deadline=None, max_examples=50)
@hypothesis.given(
  st.lists(
    st.builds(
      Call,
      st.sampled_from(['f', 'g.h']),
      st.lists(VALUES, max_size=2).map(tuple),
      st.dictionaries(st.sampled_from(['a', 'b', 'long_name']), VALUES),
    ),
    max_size=3,
  )
)
def test_what_is_written_is_read(made):
  text = call_syntax_python.write(made)
  hypothesis.assume('\\ud' not in text)
  assert call_syntax_python.read(text) == tuple(made)


@hypothesis.settings(deadline=None)
@hypothesis.given(st.text('[](){}\'",=fa1.-* \n\\#'))
def test_nothing_raises(text):
  call_syntax_python.read(text)
