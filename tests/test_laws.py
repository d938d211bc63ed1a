"""Laws of layout that every method keeps: what lies where does not matter.

Over all recipes there are and all terms beside an objective (`family`), which
are compiled once for all laws. Laws of rewards are in test_laws_rewards.py,
laws of cutting an update into pieces in test_laws_pieces.py.
"""

import batches
import family
import jax
import numpy as np
import pytest

from arl import columns as columns_lib
from arl import levels
from arl.kernels import aggregations
from arl.methods import binding, compose

pytestmark = pytest.mark.usefixtures('compiled_once')

BAD = (np.nan, np.inf, -np.inf, 1e9)
# What else may lie off the mask: of other columns than numbers.
OTHER = {
  **{n: True for n in batches.ARRAYS if columns_lib.dtype(n) == 'bool'},
  **{n: 2**20 for n in batches.ARRAYS if columns_lib.dtype(n) == 'int32'},
}
SUMS = aggregations.sequence_sum, aggregations.constant


def _same(got, want):
  """Asserts that results are equal bit for bit, naming what is not."""
  for name in want:
    for (path, a), b in zip(
      jax.tree_util.tree_leaves_with_path(got[name]),
      jax.tree.leaves(want[name]),
      strict=True,
    ):
      assert np.array_equal(a, b), (name, jax.tree_util.keystr(path))


def _by_token(result):
  """All that a method gives a token."""
  leaves = jax.tree.leaves((result.gradient, result.credits, result.weights))
  return [leaf for leaf in leaves if leaf.ndim > 2]


# What lies off the mask gets nothing and has no influence.


@pytest.mark.parametrize('stack', batches.STACKS)
def test_off_the_mask_everything_is_zero_and_all_is_finite(stack):
  off = ~batches.padded(stack)['mask']
  for name, result in family.plain(stack).items():
    assert not any(np.any(leaf[off]) for leaf in _by_token(result)), name
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(result)), name


@pytest.mark.parametrize('name', family.METHODS)
def test_what_a_method_differentiates_gets_a_gradient(name):
  read = set()
  for term in compose.terms_of(family.PARTS[name]):
    for _, kernel in term.loss:
      read |= set(binding.read_by(kernel)) & set(batches.POLICY)
  assert read
  for column in batches.POLICY:
    gradient = family.plain()[name].gradient[column]
    assert np.any(gradient) == (column in read), column


def _spoiled(columns, names, bad):
  """A batch in which columns are `bad` off the mask."""
  spoiled = dict(columns)
  for name in names:
    x = columns[name]
    on = columns['mask'].reshape(*columns['mask'].shape, *[1] * (x.ndim - 2))
    spoiled[name] = np.where(on, x, np.asarray(bad, x.dtype))
  return spoiled


@pytest.fixture(scope='module')
def clean():
  """One batch, and what the methods make of COUNT copies of it."""
  columns = batches.batch(batches.some()[2])
  return columns, family.evaluate(batches.join([columns] * batches.COUNT))


def test_padding_full_of_anything_changes_nothing(clean):
  columns, want = clean
  each = [_spoiled(columns, batches.FLOATS, bad) for bad in BAD]
  _same(family.evaluate(batches.join(each)), want)


@pytest.mark.parametrize('start', range(0, len(batches.FLOATS), batches.COUNT))
def test_padding_of_one_column_full_of_nan_changes_nothing(start, clean):
  columns, want = clean
  names = (batches.FLOATS * 2)[start : start + batches.COUNT]
  each = [_spoiled(columns, [name], np.nan) for name in names]
  _same(family.evaluate(batches.join(each)), want)


def test_padding_may_carry_any_mark_and_any_segment(clean):
  columns, want = clean
  each = []
  for bad in (0, 5, -3, 2**30):
    spoiled = columns
    for name, mark in OTHER.items():
      if name != 'mask':
        spoiled = _spoiled(spoiled, [name], mark if bad else 0)
    ids = {name: columns[name].ids for name in batches.LEVELS}
    ids = _spoiled({'mask': columns['mask'], **ids}, batches.LEVELS, bad)
    for name, num in batches.LEVELS.items():
      spoiled[name] = levels.Level(ids[name], num)
    each.append(spoiled)
  _same(family.evaluate(batches.join(each)), want)


def test_an_empty_mask_gives_no_loss_and_no_gradient(clean):
  columns, _ = clean
  empty = {**columns, 'mask': np.zeros_like(columns['mask'])}
  each = [_spoiled(empty, batches.FLOATS, bad) for bad in BAD]
  for name, result in family.evaluate(batches.join(each)).items():
    made = result.loss, result.metrics, _by_token(result)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(made)), name


# Weights are means.


@pytest.mark.parametrize('stack', batches.STACKS)
def test_weights_are_not_negative_and_means_sum_to_one(stack):
  for name, result in family.plain(stack).items():
    for term in compose.terms_of(family.PARTS[name]):
      weights = result.weights[term.name]
      assert np.all(weights >= 0), (name, term.name)
      sums = np.sum(weights, axis=(1, 2))
      if binding.function_of(term.aggregate) not in SUMS:
        family.close(sums, np.ones(batches.COUNT), f'{name} {term.name}')


# Packing, order and names do not matter.


def _places(stack, places):
  """(batch, row, column) of all tokens of a stack, in one order."""
  found = [
    (number, row, column)
    for number, (made, where) in enumerate(zip(batches.some(stack), places))
    for one, (row, first) in zip(made, where)
    for column in range(first, first + len(one['mask']))
  ]
  return tuple(np.array(found).T)


@pytest.mark.parametrize('stack', batches.STACKS)
def test_packing_changes_nothing(stack):
  made = batches.some(stack)
  places = [batches.pack(each, seed=stack) for each in made]
  columns = batches.join([batches.batch(*each) for each in zip(made, places)])
  packed = family.evaluate(columns)
  here = _places(stack, [batches.PADDED] * batches.COUNT)
  there = _places(stack, places)
  for name, want in family.plain(stack).items():
    got = packed[name]
    family.close(got.loss, want.loss, name)
    for metric, value in want.metrics.items():
      family.close(got.metrics[metric], value, f'{name} {metric}')
    for a, b in zip(_by_token(got), _by_token(want), strict=True):
      family.close(a[there], b[here], name, atol=1e-5)


@pytest.mark.parametrize('stack', batches.STACKS)
def test_permuting_rows_permutes(stack):
  order = np.random.default_rng(stack).permutation(batches.ROWS)

  def permute(x):
    return x[:, order] if x.ndim > 1 else x

  got = family.evaluate(jax.tree.map(permute, batches.padded(stack)))
  for name, want in family.plain(stack).items():
    family.close(got[name].loss, want.loss, name)
    for a, b in zip(_by_token(got[name]), _by_token(want), strict=True):
      family.close(a, b[:, order], name, atol=1e-5)


@pytest.mark.parametrize('stack', batches.STACKS)
def test_relabelling_segments_changes_nothing(stack):
  rng, columns = np.random.default_rng(stack), batches.padded(stack)
  for name, num in batches.LEVELS.items():
    names = rng.permutation(num).astype(np.int32)
    columns[name] = levels.Level(names[columns[name].ids], num)
  _same(family.evaluate(columns), family.plain(stack))


def test_rows_that_are_one_segment_may_say_so_once():
  columns = batches.padded()
  for name in ('seq', 'group'):
    level = columns[name]
    columns[name] = levels.Level(level.ids[:, :, :1], level.num)
  got = family.at_once(columns)
  for name, want in family.plain().items():
    for (path, a), b in zip(
      jax.tree_util.tree_leaves_with_path(got[name]),
      jax.tree.leaves(want),
      strict=True,
    ):
      what = f'{name} {jax.tree_util.keystr(path)}'
      family.close(a, b, what, atol=1e-5)
