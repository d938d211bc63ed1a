"""Patches: the form, applying them, and how alike they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl.rewards import patches

FILES = {'a.py': 'def f(a, b):\n  return a + b\n', 'b.py': 'x = 1\n'}
FIXED = {'a.py': 'def f(a, b):\n  return a - b\n'}


def block(search, replace, path='a.py'):
  return (
    f'```python\n### {path}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n'
    '>>>>>>> REPLACE\n```'
  )


def said(*blocks, thought='it adds'):
  text = '\n'.join(blocks)
  return f'<think>\n{thought}\n</think>\n<solution>\n{text}\n</solution>'


RIGHT = block('  return a + b', '  return a - b')


def test_the_right_patch_is_1():
  assert patches.swe_rl(said(RIGHT), FILES, FIXED) == 1


def test_another_patch_is_in_between():
  score = patches.swe_rl(
    said(block('  return a + b', '  return b - a')), FILES, FIXED
  )
  assert 0.5 < score < 1


def test_a_file_too_many_halves_it():
  both = said(RIGHT, block('x = 1', 'x = 2', 'b.py'))
  assert patches.swe_rl(both, FILES, FIXED) == 0.5


def test_edits_of_a_file_follow_each_other():
  edits = [
    patches.Edit('b.py', 'x = 1', 'x = 2'),
    patches.Edit('b.py', 'x = 2', 'x = 3'),
  ]
  assert patches.apply(FILES, edits) == {'b.py': 'x = 3\n'}


def test_a_new_file_and_a_line_that_goes():
  edits = patches.read(said(block('x = 1', '', 'b.py')))
  assert edits == [patches.Edit('b.py', 'x = 1', '')]


@pytest.mark.parametrize(
  'text, why',
  [
    (RIGHT, 'is there 0 times'),
    (said(RIGHT) + said(RIGHT), 'is there 2 times'),
    (said('no block'), 'there is no edit block'),
    (said(RIGHT, thought=' '), 'the thought is empty'),
    (f'<solution>{RIGHT}</solution><think>a</think>', 'not in order'),
  ],
)
def test_wrong_forms(text, why):
  with pytest.raises(patches.FormError, match=why):
    patches.read(text)
  assert patches.swe_rl(text, FILES, FIXED) == patches.WRONG_FORM


@pytest.mark.parametrize(
  'search, replace, path',
  [
    ('  return a + b', '  return a + b', 'a.py'),
    ('  return a * b', '  return a - b', 'a.py'),
    ('return a + b', 'return a - b', 'a.py'),  # not from the line's start
    ('  return a + b', '  return a - b', 'c.py'),
  ],
)
def test_edits_that_do_not_apply(search, replace, path):
  text = said(block(search, replace, path))
  assert patches.swe_rl(text, FILES, FIXED) == patches.WRONG_FORM


DIFFS = st.dictionaries(
  st.sampled_from('abc'), st.text('xy\n', max_size=9), max_size=3
)


@given(DIFFS, DIFFS)
def test_similarity_is_a_share(ours, theirs):
  assert 0 <= patches.similarity(ours, theirs) <= 1


@given(st.text(max_size=40))
def test_a_reward_is_minus_one_or_a_share(text):
  for each in (text, said(text), said(block(text, '  y'))):
    score = patches.swe_rl(each, FILES, FIXED)
    assert score == -1 or 0 <= score <= 1


def test_nothing_against_nothing_is_alike():
  assert patches.similarity({}, {}) == 1
  assert patches.similarity({'a': ''}, {'a': 'x'}) == 0
  assert patches.hybrid(0.5, 1) == pytest.approx(0.9)
