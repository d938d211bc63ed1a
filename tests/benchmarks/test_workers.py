"""Workers in their processes, and the two sides that need no other library."""

import os
import sys

import numpy as np
import pytest

from benchmarks import cases, processes
from benchmarks.sides import arl as arl_side
from benchmarks.sides import plain

SHAPE = (16, 64)
CORE = min(os.sched_getaffinity(0))


def outputs(work):
  return work.outputs(work.call())


def test_a_worker_prepares_and_measures(tmp_path):
  file = tmp_path / 'outputs.npz'
  with processes.start('plain', sys.executable, CORE, tmp_path) as worker:
    assert worker.versions.keys() == {'python', *plain.PACKAGES}
    ask = {'row': 'sequence_mean', 'shape': SHAPE, 'outputs': str(file)}
    assert worker.ask(**ask) > 0
    assert worker.ask(repeats=3) > 0
  with np.load(file) as made:
    np.testing.assert_allclose(made['column'].sum(), 1, rtol=1e-6)


def test_a_worker_that_ends_says_why(tmp_path):
  with (
    pytest.raises(RuntimeError, match='(?s)^none: .*No module named'),
    processes.start('none', sys.executable, CORE, tmp_path),
  ):
    pass


@pytest.mark.parametrize('row', plain.rows())
def test_written_out_it_is_the_same_kernel(row):
  given = cases.arrays(*SHAPE)
  ours, theirs = (outputs(s.rows()[row](given)) for s in (arl_side, plain))
  assert cases.difference(ours, theirs) < 1e-6


@pytest.mark.parametrize('row', ['ppo_clip', 'grpo_k3', 'gspo', 'cispo'])
def test_an_objective_gives_loss_and_gradient(row):
  given = cases.arrays(*SHAPE)
  made = outputs(arl_side.rows()[row](given))
  on = given['mask'] > 0
  assert np.isfinite(made['loss'])
  assert made['gradient'][on].any() and not made['gradient'][~on].any()


def test_credit_is_what_the_arrays_hold():
  given = cases.arrays(*SHAPE)
  made = outputs(arl_side.rows()['group_advantage'](given))
  want = given['advantage'][:, None] * given['mask']
  np.testing.assert_allclose(made['advantage'], want, atol=1e-5)
  made = outputs(arl_side.rows()['gae'](given))
  assert made.keys() == {'advantage', 'explained', 'returns'}
