"""Batches that say the same."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl.rewards import variety

WORDS = st.text('ab ', max_size=12)


@pytest.mark.parametrize(
  'text, reference, wanted',
  [
    ('a b c d e', 'a b c d e', 1),
    ('a b', 'c d', 0),
    ('', 'a', 0),
    ('a', '', 0),
    # 3 of 4, 2 of 3, 1 of 2, and a tenth of 1; as long.
    ('a b c x', 'a b c d', (3 / 4 * 2 / 3 * 1 / 2 * 0.1) ** 0.25),
    # All agree, but it is shorter.
    ('a b c d', 'a b c d e f', math.exp(1 - 6 / 4)),
  ],
)
def test_bleu(text, reference, wanted):
  assert variety.bleu(text, reference) == pytest.approx(wanted)


@given(WORDS, WORDS)
def test_bleu_is_a_share(text, reference):
  assert 0 <= variety.bleu(text, reference) <= 1


SAME = 'what is the sum of 3 and 4 in all'


def test_shares():
  texts = [SAME, 'name a prime below ten', SAME, SAME.replace('4', '5')]
  np.testing.assert_allclose(variety.shares(texts), [0.75, 0.25, 0.75, 0.75])


def test_few_texts():
  np.testing.assert_array_equal(variety.shares([]), [])
  np.testing.assert_array_equal(variety.shares(['a']), [1])
  np.testing.assert_array_equal(variety.shares(['a', 'a']), [1, 1])
  np.testing.assert_array_equal(variety.shares(['', 'b']), [0.5, 0.5])


@given(st.lists(WORDS, max_size=6))
def test_shares_count_texts(texts):
  counts = variety.shares(texts) * len(texts)
  np.testing.assert_allclose(counts, np.round(counts))
  assert np.all(counts >= [texts.count(text) for text in texts])
