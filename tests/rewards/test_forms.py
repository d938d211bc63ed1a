"""Form: nothing is paid for half of it."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl.rewards import forms


@pytest.mark.parametrize(
  'text, wanted',
  [
    ('<think>a\nb</think>\n<answer>4</answer>', True),
    (' <think>a</think><answer>4</answer>\n', True),
    ('<think>a</think><think>b</think><answer>1</answer>', False),
    ('<think>a</think><answer>4</answer> so', False),
    ('so <think>a</think><answer>4</answer>', False),
    ('<think>a</think> so <answer>4</answer>', False),
    ('<think>a<answer>4</answer></think>', False),
    ('<answer>4</answer><think>a</think>', False),
    ('<think></think><answer>4</answer>', False),
    ('<think>a</think><answer> </answer>', False),
    ('<answer></answer>', False),
    ('<think>a</think><answer>4', False),
    ('', False),
  ],
)
def test_think_answer(text, wanted):
  assert forms.think_answer(text) is wanted
  assert forms.r1(text, 1.0, weight=0.25) == 1 + 0.25 * wanted


@pytest.mark.parametrize(
  'text, wanted',
  [
    ('{"a": [1, 2.5, null, "é"]}', True),
    (' 3 ', True),
    ('{"a": 1, "a": 2}', False),
    ('{"a": 1,}', False),
    ("{'a': 1}", False),
    ('[NaN]', False),
    ('[-Infinity]', False),
    ('{} {}', False),
    ('so: {}', False),
    ('', False),
    ('[' * 100_000, False),
  ],
)
def test_json(text, wanted):
  assert forms.is_json(text) is wanted


def test_json_of_a_schema():
  schema = {'type': 'object', 'required': ['a'], 'additionalProperties': False}
  schema['properties'] = {'a': {'type': 'integer'}}
  assert forms.is_json('{"a": 1}', schema)
  assert not forms.is_json('{"a": "1"}', schema)
  assert not forms.is_json('{"a": 1, "b": 2}', schema)
  assert not forms.is_json('{}', schema)


VALUES = st.recursive(
  st.none() | st.booleans() | st.integers() | st.text(),
  lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
  max_leaves=10,
)


@given(VALUES)
def test_what_is_written_as_json_is_json(value):
  assert forms.is_json(json.dumps(value))


@pytest.mark.parametrize(
  'text, wanted',
  [
    ('<r><a>1</a><b/></r>', True),
    (' <r>\n<a>1</a>\n<b x="1">2</b></r>\n', True),
    ('<r><b/><a/></r>', False),
    ('<r><a/></r>', False),
    ('<q><a/><b/></q>', False),
    ('<r><a></b></r>', False),
    ('<r><a/><b/>', False),
    ('<r><a/><b/></r><r/>', False),
    ('text', False),
    ('', False),
  ],
)
def test_xml(text, wanted):
  assert forms.is_xml(text, 'r', ('a', 'b')) is wanted
  assert forms.is_xml('<r/>', 'r')


def test_xml_that_grows_is_none():
  entities = ''.join(
    f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "x"}">' for i in range(12)
  )
  text = f'<!DOCTYPE r [{entities}]><r>&e11;</r>'
  start = time.process_time()
  assert not forms.is_xml(text, 'r')
  assert not forms.is_xml('<r>' * 50_000, 'r')
  assert time.process_time() - start < 3


@pytest.mark.parametrize(
  'facts, wanted',
  [
    ((True, 3, 0, True), 0.8),
    ((True, 300, 0, True), 0.8),
    ((False, 0, 9, False), 0),
    ((False, 0, 0, False), 0),
  ],
)
def test_the_survey_reward(facts, wanted):
  assert forms.survey(*facts) == pytest.approx(wanted)


def test_language_share():
  assert forms.language_share('the cat', 'LATIN') == 1
  assert forms.language_share('кот the', 'LATIN') == 0.5
  assert forms.language_share('12 + 3', 'LATIN') == 0


@pytest.mark.parametrize('junk', ['<think>', '<', '<think></think>', '{"a":'])
def test_reading_is_linear(junk):
  text = junk * (200_000 // len(junk))
  start = time.monotonic()
  forms.think_answer(text)
  forms.is_json(text)
  forms.is_xml(text, 'r')
  assert time.monotonic() - start < 20
