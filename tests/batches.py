"""Random batches that hold every column a method reads, with its meaning.

Sequences are made one by one and laid out padded, packed or cut at will, so
that one content is seen in many layouts. Everything is numpy. Batches are used
a stack at a time: `join` adds a leading axis, over which methods are mapped.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from arl import columns as columns_lib
from arl import levels

ROWS, WIDTH, LONGEST = 16, 16, 5
COUNT = 4  # batches in a stack
STACKS = range(4)
BINS, FEATURES, TEACHERS = 5, 4, 3
# The group of each sequence. Group 1 has binary rewards, the rewards of group 2
# are equal, group 3 is a demonstration alone; in group 4 one sequence has one
# token and another none of the policy's.
GROUPS = (0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 4, 4)
TREES = (0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7)  # of the sequences
SHORT, EMPTY = 9, 10
POLICY = tuple(sorted(columns_lib.filled_by(columns_lib.POLICY)))
SCALARS = ('iteration', 'progress', 'kl_coef')
LEVELS = {
  'seq': ROWS,
  'group': ROWS,
  'turn': ROWS * LONGEST,
  'step_of_group': ROWS * LONGEST,
  'state': ROWS * LONGEST,
  'tree': ROWS,
  'node': ROWS * LONGEST,
}
ENTRIES = 3
DIVERGENCES = 'reverse_kl', 'forward_kl', 'jsd'
CANDIDATES = (
  'top_logp', 'teacher_top_logp', 'own_logp', 'old_own_logp',
  'teacher_own_logp',
)  # fmt: skip
_WIDTHS = {
  'value_logits': (BINS,),
  'old_value_logits': (BINS,),
  'features': (FEATURES,),
  'teacher_logps': (TEACHERS,),
  **dict.fromkeys(CANDIDATES, (ENTRIES,)),
}
# Columns that no kernel of a method reads.
_UNREAD = (
  'tokens', 'positions', 'segments', 'routed_experts', 'rerouted',
  'teacher_ids', 'old_ids', 'rollout_temperature', 'sampling_weight',
)  # fmt: skip
ARRAYS = tuple(
  name
  for name, column in columns_lib.COLUMNS.items()
  if column.shape.startswith('[')
  and column.filler != columns_lib.STEP
  and name not in _UNREAD
)
FLOATS = tuple(n for n in ARRAYS if columns_lib.dtype(n) == 'float32')
Place = tuple[int, int]  # row, first token
PADDED: Sequence[Place] = tuple((row, 0) for row in range(len(GROUPS)))


def sequences(seed: int) -> list[dict[str, Any]]:
  """A sequence for each entry of GROUPS: its columns [n], its group, turns.

  Masks have gaps.
  """
  rng = np.random.default_rng(seed)
  made = [_sequence(rng, index) for index in range(len(GROUPS))]
  wins = rng.permutation([1.0, 0.0, float(rng.integers(2))])
  for index, one in enumerate(made):
    ends = np.arange(len(one['mask'])) == len(one['mask']) - 1
    if one['group'] == 1:
      one['rewards'] = np.where(ends, wins[index - GROUPS.index(1)], 0.0)
    if one['group'] == 2:
      one['rewards'] = np.where(ends, 0.7, 0.0)
  return made


def _sequence(rng, index):
  n = 1 if index == SHORT else int(rng.integers(2, LONGEST + 1))
  group = GROUPS[index]
  mask = rng.random(n) < 0.7
  mask[-1] = True
  mask &= index != EMPTY
  turn = np.cumsum(rng.random(n) < 0.5).astype(np.int32)
  turn -= turn[0]
  ends = mask & _last_of(turn, mask)
  logp = -rng.exponential(size=n)
  value, old_value = rng.normal(size=(2, n))

  def near(scale):
    return -np.abs(logp + scale * rng.normal(size=n))

  return {
    'group': group,
    'turn': turn,
    'mask': mask,
    'rewards': np.where(mask, rng.normal(size=n) * (rng.random(n) < 0.5), 0),
    'process_rewards': np.where(ends, rng.random(n), 0),
    'baseline': np.full(n, 0.3 * group),
    'turn_value': np.cos(index + turn),
    'tree': np.full(n, TREES[index]),
    'copies': np.where(turn == 0, TREES.count(TREES[index]), 1),
    'hindsight_logp': -np.abs(logp + 0.3 * np.sin(index + np.arange(n))),
    'truncated': np.full(n, index % 3 == 1),
    'ranked': np.full(n, index % 2 == 0),
    'demonstrated': np.full(n, group == 3),
    'stage': np.full(n, index % 3),
    'pivotal': (turn > 0) | (index % 2 == 0),
    'hinted': np.full(n, index % 3 != 2),
    'mismatched': np.full(n, index in (2, 7)),
    'observed': turn % 2 == 1,
    'example_weight': np.full(n, 0.5 + group),
    'answer': (turn == turn[-1]) & (group < 2) & (turn[-1] > 0),
    'kind': rng.integers(5, size=n),
    'logp': logp,
    'rollout_logp': near(0.3),
    'old_logp': near(0.3),
    'ref_logp': near(0.3),
    'entropy': rng.exponential(size=n),
    'old_entropy': rng.exponential(size=n),
    'rollout_entropy': rng.exponential(size=n),
    'value': value,
    'old_value': old_value,
    'value_after': np.sin(value + 1),
    'value_logits': rng.normal(size=(n, BINS)),
    'old_value_logits': rng.normal(size=(n, BINS)),
    'features': rng.normal(size=(n, FEATURES)),
    'noise': rng.random(n),
    **_taught(rng.spawn(1)[0], logp),
  }


def _taught(rng, logp):
  """What teachers make of a sequence."""
  n = len(logp)

  def near(*shape):
    own = logp.reshape(-1, *[1] * len(shape))
    return -np.abs(own + 0.3 * rng.normal(size=(n, *shape)))

  return {
    'teacher': np.full(n, rng.integers(TEACHERS)),
    'teacher_logp': near(),
    'teacher_logps': near(TEACHERS),
    'reconsidering': rng.random(n) < 0.3,
    'teacher_entropy': rng.exponential(size=n),
    **{name: rng.exponential(size=n) for name in DIVERGENCES},
    **{name: _some_of_all(rng, n) for name in CANDIDATES},
  }


def _some_of_all(rng, n):
  """Log-probs [n, ENTRIES] of some of all tokens."""
  scores = rng.normal(size=(n, ENTRIES + 2))
  every = scores - np.log(np.sum(np.exp(scores), axis=1, keepdims=True))
  return every[:, :ENTRIES]


def _last_of(turn, mask):
  """Marks the last token on the mask of each turn."""
  return np.array([not np.any(mask[i + 1 :] & (turn[i + 1 :] == turn[i]))
                   for i in range(len(turn))])  # fmt: skip


def tokens_at(sequence, place: Place):
  """The index of a sequence's tokens in the last axes of a batch."""
  row, first = place
  return row, slice(first, first + len(sequence['mask']))


def batch(
  made, places: Sequence[Place] = PADDED, dtype: Any = np.float32
) -> dict[str, Any]:
  """Sequences as columns [ROWS, WIDTH], each at its place; 0 elsewhere."""
  shape = (ROWS, WIDTH)
  columns: dict[str, Any] = {}
  for name in ARRAYS:
    kind = columns_lib.dtype(name)
    kind = dtype if kind == 'float32' else np.dtype(kind)
    columns[name] = np.zeros((*shape, *_WIDTHS.get(name, ())), kind)
  ids = {name: np.zeros(shape, np.int32) for name in LEVELS}
  for index, (one, place) in enumerate(zip(made, places)):
    at = tokens_at(one, place)
    for name in ARRAYS:
      columns[name][at] = one[name]
    ids['seq'][at] = index
    ids['group'][at] = one['group']
    ids['turn'][at] = index * LONGEST + one['turn']
    ids['step_of_group'][at] = one['group'] * LONGEST + one['turn']
    ids['state'][at] = one['group'] * LONGEST + one['turn'] // 2
    ids['tree'][at] = one['tree']
    node = np.where(one['turn'], ROWS + index * (LONGEST - 1) + one['turn'], 0)
    ids['node'][at] = np.where(one['turn'], node - 1, one['tree'])
  for name, num in LEVELS.items():
    columns[name] = levels.Level(ids[name], num)
  knobs = {'iteration': 3.0, 'progress': 0.4, 'kl_coef': 0.2}
  return {**columns, **{n: np.asarray(knobs[n], dtype) for n in SCALARS}}


def pack(made, seed: int) -> list[Place]:
  """Places for sequences in any order, up to three in a row, with gaps."""
  rng = np.random.default_rng(seed)
  per_row = WIDTH // LONGEST
  cells = rng.permutation(ROWS * per_row)[: len(made)]
  shift = rng.integers(WIDTH - per_row * LONGEST + 1, size=ROWS)
  return [
    (int(c) // per_row, int(c) % per_row * LONGEST + int(shift[c // per_row]))
    for c in cells
  ]


@functools.cache
def some(stack: int = 0) -> list[list[dict[str, Any]]]:
  """The sequences of COUNT batches; not to be changed."""
  first = stack * COUNT
  return [sequences(seed) for seed in range(first, first + COUNT)]


def padded(stack: int = 0) -> dict[str, Any]:
  """The batches of `some`, a sequence a row."""
  return join([batch(made) for made in some(stack)])


def join(each: Sequence[dict[str, Any]]) -> dict[str, Any]:
  """Batches as one, with a leading axis."""
  return jax.tree.map(lambda *x: np.stack(x), *each)
