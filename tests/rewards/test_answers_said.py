"""Reading answers from texts."""

import pytest

from arl.rewards import answers


@pytest.mark.parametrize(
  'text, wanted',
  [
    ('no thought', 'no thought'),
    ('<think>a</think> b', ' b'),
    ('<think>a</think><think>c</think>d', 'd'),
    ('<think>a', None),
    ('<think>a</think> b <think>c', None),
    ('a</think>b', 'b'),
  ],
)
def test_what_is_said(text, wanted):
  assert answers.said(text) == wanted


@pytest.mark.parametrize(
  'text, wanted',
  [
    (r'\boxed{1}', '1'),
    (r'\boxed{\frac{1}{2}} and', r'\frac{1}{2}'),
    (r'\boxed{\{1\}}', r'\{1\}'),
    (r'\boxed{1} \fbox{2}', '2'),
    (r'\fbox{2} \boxed{1}', '1'),
    (r'\boxed{\boxed{5}}', '5'),
    (r'\boxed{1', None),
    (r'\boxed{1} \boxed{2', None),
    ('boxed{1}', None),
    (r'\boxed{1\\}', '1\\\\'),
  ],
)
def test_the_last_box(text, wanted):
  assert answers.boxed(text) == wanted


@pytest.mark.parametrize(
  'text, wanted',
  [
    ('<answer> 4 </answer>', '4'),
    ('<answer>3</answer><answer>4</answer>', '4'),
    ('<answer>3</answer><answer>4', '3'),
    ('<answer>3', None),
    ('3</answer>', None),
    ('</answer><answer>', None),
  ],
)
def test_the_last_tag(text, wanted):
  assert answers.tagged(text) == wanted


@pytest.mark.parametrize(
  'text, wanted',
  [
    ('We get $x=2$, so $y = 3$', 'y = 3'),
    ('We get $x=2$, so it is 3', '3'),
    (r'Thus \(a+b\).', 'a+b'),
    (r'Thus \[a+b\]', 'a+b'),
    ('It is 1,250.', '1,250'),
    ('It is 1,250 or 3', '1250, 3'),
    ('either 1, 2 or 3', '1, 2, 3'),
    ('x = 5, y = 6 it is', '6'),
    ('nothing here', None),
    ('version2', None),
    ('**7**', '7'),
    ('$7$', '7'),
    ('-0.5', '-0.5'),
  ],
)
def test_without_a_box(text, wanted):
  assert answers.math(text) == wanted
