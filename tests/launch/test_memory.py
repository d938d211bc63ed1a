"""Freed memory stays with a process that was told to keep it."""

import subprocess
import sys

import pytest

from launch import memory

# Faults of a block's pages, taken a second time.
_TOUCH = """
import resource
import sys
import numpy as np
from launch import memory

if sys.argv[1] == 'keep':
  assert memory.keep()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
block = np.ones(2**24)
del block
before = faults()
block = np.ones(2**24)
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != 'linux', reason='glibc alone does this')
def test_a_block_is_not_faulted_in_again():
  said = {
    how: int(subprocess.check_output([sys.executable, '-c', _TOUCH, how]))
    for how in ('keep', 'give')
  }
  assert said['keep'] < 100 < said['give']


def test_elsewhere_nothing_is_changed(monkeypatch):
  monkeypatch.setattr(sys, 'platform', 'darwin')
  assert not memory.keep()
