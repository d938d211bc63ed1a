"""Answers to questions, and what form is worth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl.rewards import answers, search

GOOD = '<think>a\nb</think>\n<answer>Paris</answer>'
SEARCHED = (
  '<think>a</think><search>q</search><information>It is Paris.</information>'
  '<think>b</think><answer>Rome</answer>'
)


@pytest.mark.parametrize(
  'text, wanted',
  [
    ('The Eiffel  Tower!', 'eiffel tower'),
    ('An apple a day', 'apple day'),
    ('the', ''),
    ('U.S.', 'us'),
    ('theatre', 'theatre'),
  ],
)
def test_normalized(text, wanted):
  assert search.normalized(text) == wanted


@pytest.mark.parametrize(
  'answer, golds, wanted',
  [
    ('', ['beagle'], 0),
    ('concatenate', ['cat'], 0),
    ('beagle ' * 100, ['beagle'], 0),
    ('beagle, poodle, husky', ['beagle'], 0),
    (' ', ['beagle'], 0),
    (None, ['beagle'], 0),
    ('the Beagle.', ['poodle', 'beagle'], 1),
    ('x', [], 0),
  ],
)
def test_exact_match(answer, golds, wanted):
  assert search.exact_match(answer, golds) == wanted


@pytest.mark.parametrize(
  'answer, gold, wanted',
  [
    ('', '', 1),
    ('the', 'a', 1),
    ('', 'cat', 0),
    ('cat', '', 0),
    ('yes it is', 'yes', 0),
    ('no', 'No.', 1),
    ('dog', 'cat', 0),
    ('cat dog', 'cat', 2 / 3),
    ('cat cat', 'cat', 2 / 3),
  ],
)
def test_f1(answer, gold, wanted):
  assert search.f1(answer, [gold]) == pytest.approx(wanted)
  assert search.f1(answer, ['zebra', gold]) == pytest.approx(wanted)
  assert search.f1(None, [gold]) == 0


@given(st.text(), st.text())
def test_f1_is_a_share_and_symmetric(ours, theirs):
  score = search.f1(ours, [theirs])
  assert 0 <= score <= 1
  assert score == search.f1(theirs, [ours])
  assert search.f1(ours, [ours]) == 1
  assert score >= search.exact_match(ours, [theirs])


@pytest.mark.parametrize(
  'text, structured',
  [
    (GOOD, True),
    (SEARCHED, True),
    (f' {GOOD}\n', True),
    (f'{GOOD} so', False),
    (f'so {GOOD}', False),
    ('<think>a</think><think>b</think><answer>1</answer>', False),
    ('<think>a</think><search>q</search><answer>1</answer>', False),
    ('<think>a<answer>1</answer></think>', False),
    ('<think>a</think><answer>1', False),
    ('<answer>1</answer>', False),
    ('', False),
  ],
)
def test_structure(text, structured):
  assert search.read(text).structured == structured


@pytest.mark.parametrize(
  'text, wanted',
  [
    (GOOD, 1),
    (f'{GOOD} so', 0.8),
    (SEARCHED, 0.3),
    (SEARCHED.replace('Paris', 'Oslo'), 0.2),
    (SEARCHED + ' so', 0.1),
    ('Paris', 0),
    ('<think><answer>Paris</answer></think>', 0),
    ('<think>a</think><answer>Comparisons</answer>', 0.2),
  ],
)
def test_search_r1(text, wanted):
  said = search.read(text)
  assert search.search_r1(said, ['Paris']) == pytest.approx(wanted)
  alone = search.search_r1(said, ['Paris'], structure=0, retrieval=0, final=0)
  assert alone == search.exact_match(said.answer, ['Paris'])


def test_the_other_shapes():
  assert search.research(search.read(GOOD), ['Paris']) == 1
  assert search.research(search.read(GOOD), ['in Paris']) == 2 / 3
  assert search.research(search.read(SEARCHED), ['Paris']) == 0.1
  assert search.research(search.read('Rome'), ['Paris']) == 0
  assert search.em_partial(search.read(GOOD), ['Paris']) == pytest.approx(1.1)
  found = search.em_partial(search.read(SEARCHED), ['Paris'])
  assert found == pytest.approx(0.3)


def test_an_answer_within_a_thought_is_none():
  assert search.read('<think><answer>x</answer></think>').answer is None
  assert answers.tagged('<think><answer>x</answer></think>') == 'x'
