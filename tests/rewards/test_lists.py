"""Formulas that list others."""

import pytest

from arl.rewards import lists


@pytest.mark.parametrize(
  'formula, wanted',
  [
    ('1,2', ('{}', ['1', '2'])),
    ('1;2', ('{}', ['1', '2'])),
    (r'\{1,2\}', ('{}', ['1', '2'])),
    (r'\{1\}', ('{}', ['1'])),
    ('(1,2)', ('()', ['1', '2'])),
    ('[1,2)', ('[)', ['1', '2'])),
    ('(1,250)', ('()', ['1', '250'])),
    ('(1,2),(3,4)', ('{}', ['(1,2)', '(3,4)'])),
    (r'(\frac{1}{2},f(1,2))', ('()', [r'\frac{1}{2}', 'f(1,2)'])),
    ('((1,2),3)', ('()', ['(1,2)', '3'])),
    ('1,250', None),
    ('1,250,000.5', None),
    ('12', None),
    ('(12)', None),
    ('(1,2)+(3,4)', None),
    ('k=5,6', None),
    ('f(1,2)', None),
    ('{1,2}', None),
    (r'1\,250', None),
    ('(', None),
    ('', None),
  ],
)
def test_reading(formula, wanted):
  assert lists.read(formula) == wanted
