"""The table of columns, and the batch that fills its first part."""

import jax.numpy as jnp
import worked

from arl import columns, types


def test_a_batch_is_what_the_table_says_is_observed():
  assert set(types.Batch._fields) - {'extras'} == columns.filled_by(
    columns.PACK
  )


def test_every_column_has_one_filler():
  fillers = (
    columns.PACK,
    columns.EXTRA,
    columns.POLICY,
    columns.SCORE,
    columns.LOOP,
    columns.STEP,
  )
  by_filler = [columns.filled_by(filler) for filler in fillers]
  assert columns.filled_by(*fillers) == set(columns.COLUMNS)
  assert sum(map(len, by_filler)) == len(columns.COLUMNS)
  assert columns.filled_by(columns.POLICY) == {
    'logp',
    'entropy',
    'value',
    'value_after',
    'value_logits',
    'top_logp',
    'own_logp',
    'reverse_kl',
    'forward_kl',
    'jsd',
  }


def test_a_batch_as_columns():
  zeros, level = jnp.zeros((4, 3)), worked.sequences()
  arrays = dict.fromkeys(types.Batch._fields, zeros)
  extras = {'truncated': zeros}
  batch = types.Batch(**{**arrays, 'seq': level, 'extras': extras})
  by_name = types.columns(batch)
  assert by_name['seq'] is level and by_name['truncated'] is zeros
  assert 'extras' not in by_name
