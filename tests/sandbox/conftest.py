"""Tests that need isolation say so where there is none."""

import pytest

from arl.sandbox import base, isolation


@pytest.fixture(scope='session')
def isolated():
  """How programs are kept in here."""
  try:
    return isolation.find()
  except base.Refused as error:
    pytest.skip(f'NOT TESTED, nothing isolates here: {error}')
