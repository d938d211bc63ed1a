import pytest
import tiny

from arl.methods import compose, grpo
from arl.train import blocks

CASES = 'batch, samples, per_batch, microbatch, rows'


def configured(batch, samples, per_batch, microbatch, kind='own'):
  return tiny.config(
    'some/folder',
    prompts={'batch': batch, 'samples': samples},
    updates={
      'per_batch': per_batch, 'microbatch': microbatch, 'prefixes': kind,
    },
  )  # fmt: skip


@pytest.mark.parametrize(
  CASES, [(4, 4, 2, 4, 8), (5, 2, 2, 4, 8), (3, 3, 1, 4, 12), (1, 1, 1, 8, 8)]
)
def test_rows_hold_the_fullest_update(
  batch, samples, per_batch, microbatch, rows
):
  config = configured(batch, samples, per_batch, microbatch)
  made = compose.method(grpo.dapo())
  assert blocks.rows(config, made) == rows
  assert blocks.whole(config, made) == 0


@pytest.mark.parametrize('shared', [False, True])
@pytest.mark.parametrize(
  CASES, [(4, 4, 2, 4, 8), (5, 2, 2, 4, 8), (3, 3, 1, 4, 12), (6, 3, 1, 8, 24)]
)
def test_rows_hold_whole_groups(
  batch, samples, per_batch, microbatch, rows, shared
):
  kind = 'shared' if shared else 'own'
  config = configured(batch, samples, per_batch, microbatch, kind)
  made = compose.method(grpo.dapo())
  if not shared:
    made = made._replace(whole=frozenset({'group'}))
  assert blocks.rows(config, made) == rows
  assert blocks.whole(config, made) == microbatch
