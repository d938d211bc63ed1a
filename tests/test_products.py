"""Every axis stands orthogonally on every other: the product of all kernels.

Each combination of an advantage, a ratio, a surrogate, corrections and an
aggregation is built, which checks what it reads; of all of them a random sample
is run and held to the laws.
"""

import functools
import itertools
import random
from unittest import mock

import axes
import batches
import family
import jax
import numpy as np
import pytest

from arl.methods import binding, compose

SAMPLED, CHUNK = 300, 50
DRAWN = 3000  # of those with up to two corrections, how many are built


@functools.cache
def _sampled():
  """What is run: by advantage, so that what is compiled together is alike."""
  rng = random.Random(0)
  return sorted((axes.draw(rng) for _ in range(SAMPLED)), key=str)


# Building.


@pytest.fixture
def quick():
  """Reads each kernel's signature once."""
  cached = functools.cache(binding.read_by)
  with mock.patch.object(binding, 'read_by', cached):
    yield


def _build(combination):
  method = compose.method(axes.objective(combination))
  read = set(binding.read_by(combination.aggregate.kernel))
  for entry in (combination.advantage, combination.surrogate):
    read |= set(binding.read_by(entry.kernel))
  observed = {'mask', 'rewards', 'rollout_logp', 'seq', 'group', 'turn', 'logp'}
  assert read - axes.STEPS - observed <= method.needs, str(combination)
  assert not method.whole, str(combination)


def test_every_combination_with_one_correction_builds(quick):
  for combination in axes.product():
    _build(combination)


def test_combinations_with_up_to_two_corrections_build(quick):
  rng = random.Random(1)
  for _ in range(DRAWN):
    _build(axes.draw(rng))


def test_a_ratio_to_the_sampler_that_counts_twice_is_refused():
  weighing = [e for e in axes.CORRECTIONS if axes.by_rho(e)]
  twice = list(itertools.product(weighing, repeat=2))
  for pair in twice:
    combination = _sampled()[0]._replace(corrections=pair)
    with pytest.raises(ValueError, match='weigh by it once'):
      compose.method(axes.objective(combination))


def test_the_sample_holds_every_kernel():
  for number, axis in enumerate(
    (axes.ADVANTAGES, axes.RATIOS, axes.SURROGATES, None, axes.AGGREGATIONS)
  ):
    if axis is not None:
      found = {combination[number].name for combination in _sampled()}
      assert found == {entry.name for entry in axis}
  stacks = [combination.corrections for combination in _sampled()]
  assert set(map(len, stacks)) == {0, 1, 2}
  assert {e for stack in stacks for e in stack} == set(axes.CORRECTIONS)


# Running.


def _layouts():
  """One content: padded, in padding of nan, packed, and on policy."""
  made = batches.some(1)[0]
  columns, places = batches.batch(made), batches.pack(made, seed=3)
  spoiled = {
    name: np.where(
      columns['mask'].reshape(*columns['mask'].shape, *[1] * (x.ndim - 2)),
      x,
      np.float32(np.nan),
    )
    for name, x in columns.items()
    if name in batches.FLOATS
  }
  packed = batches.batch(made, places)
  on_policy = family.on_policy(columns)
  return made, places, [columns, {**columns, **spoiled}, packed, on_policy]


def _check(combination, result, made, places, layouts):
  """The laws of one combination, on its results for all layouts."""
  for path, leaf in jax.tree_util.tree_leaves_with_path(result):
    what = f'{combination} {jax.tree_util.keystr(path)}'
    assert np.all(np.isfinite(leaf)), what
    assert np.array_equal(leaf[0], leaf[1]), what
    if leaf.ndim > 1:
      assert not np.any(leaf[~layouts['mask']]), what
    if leaf.ndim == 1:
      family.close(leaf[2], leaf[0], what)
      continue
    for one, old, new in zip(made, batches.PADDED, places):
      here = leaf[0][batches.tokens_at(one, old)]
      there = leaf[2][batches.tokens_at(one, new)]
      family.close(there, here, what, atol=1e-5)


@pytest.mark.parametrize('start', range(0, SAMPLED, CHUNK))
def test_combinations_keep_the_laws(start):
  chunk = _sampled()[start : start + CHUNK]
  parts = [axes.objective(combination) for combination in chunk]
  built = [compose.method(part._replace(monitors=())) for part in parts]
  made, places, each = _layouts()
  layouts = batches.join(each)

  @jax.jit
  @jax.vmap
  def run(columns):
    return [family.result(method, columns) for method in built]

  for combination, part, result in zip(
    chunk, parts, jax.device_get(run(layouts)), strict=True
  ):
    _check(combination, result, made, places, layouts)
    want = family.reinforced(part, layouts, result)[3]
    got = result.gradient['logp'][3]
    family.close(got, want, f'on policy: {combination}')
