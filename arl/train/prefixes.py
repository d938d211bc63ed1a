"""Beginnings that sequences share, computed once for all of them.

The samples of a prompt, the branches of a rollout and the rows of one history
begin alike, and a causal model's state at a token depends on nothing but what
came before. With config.updates.prefixes = 'shared' the sequences of a
microbatch are merged into a trie, as tree training does (AReaL; Forge, MiniMax
M2.5): the forward pass computes each of its tokens once, and what it gives is
handed to every sequence that has the token. The losses stay what they are, each
token of each sequence with its own mask, advantage and old log-prob; the
gradients of a shared token add up by themselves.

The trie lies in blocks of BLOCK tokens, each along one path: what a sequence
adds to those before it begins a block. A token attends to its path alone, so a
tree costs what its tokens would cost in a row, and not their square. A node of
a trie is a state and the token after it, so the head as well reads every pair
of those once.
"""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from arl import columns as columns_lib
from arl.train import routing

OWN, SHARED = 'own', 'shared'
BLOCK = 64  # fewer waste less at the ends of paths, but read keys more often
# Of M microbatches of R rows: where in the microbatch's R * T tokens each token
# of its trie can be read, int32 [M * R, Q], -1 for none; and where in its R * Q
# each token of a row is, int32 [M * R, T].
PLACES, NODES = 'prefix_places', 'prefix_nodes'
# What else than tokens a state, or what `forward` reads off it, depends on.
_READ = (
  routing.COLUMN, 'rollout_temperature', *sorted({*columns_lib.IDS.values()}),
)  # fmt: skip


def place(columns: Mapping[str, Any], microbatch: int) -> dict[str, np.ndarray]:
  """The trie of each microbatch, as the columns PLACES and NODES.

  Tokens are one node where all up to them is alike: temperatures, experts that
  are replayed and ids that a teacher elsewhere has told as well. Of the copies
  of a node one on the mask is read, if any is. Q, the same for all, is rounded
  up to one of eight lengths an octave, so that few are ever compiled.

  Args:
    columns: numpy arrays [M * R, T], of a batch.
    microbatch: R.
  """
  shape = columns['tokens'].shape
  code = _code(columns)
  tries = []
  for first in range(0, shape[0], microbatch):
    rows = slice(first, first + microbatch)
    seen = (columns[name][rows] for name in ('positions', 'segments', 'mask'))
    tries.append(_trie(code[rows].reshape(microbatch * shape[1], -1), *seen))
  unit = math.lcm(microbatch, BLOCK)
  longest = max([1, *(len(places) for places, _ in tries)])
  length = unit * _rounded(-(-longest // unit))
  made = np.full((len(tries), length), -1, np.int32)
  for line, (places, _) in zip(made, tries):
    line[: len(places)] = places
  nodes = np.concatenate([nodes for _, nodes in tries])
  return {PLACES: made.reshape(shape[0], -1), NODES: nodes.reshape(shape)}


def merged(columns: Mapping[str, Any]) -> dict[str, Any]:
  """Columns of a microbatch's trie in the place of its rows.

  'before' is where in the trie the token before each one lies, and 'paths',
  [N, T], where the token at each depth of a block's path does. What the model
  reads is of N blocks, [N, BLOCK], what is read off its states of one row,
  [1, N * BLOCK]: that way the head has the fewest chunks.
  """
  rows, width = columns['mask'].shape
  flat = lambda x: x.reshape(rows * width, *x.shape[2:])
  places, nodes = columns[PLACES].reshape(-1, BLOCK), flat(columns[NODES])
  there, at = places >= 0, jnp.maximum(places, 0)
  row = lambda x: x.reshape(1, -1, *x.shape[2:])
  read = {n: row(flat(columns[n])[at]) for n in _READ if n in columns}
  if routing.COLUMN in columns:
    read[routing.COLUMN] = flat(columns[routing.COLUMN])[at]
  positions = jnp.where(there, flat(columns['positions'])[at], -1)
  # The path is that of a row which has all of the block.
  deepest = jnp.argmax(positions, axis=1, keepdims=True)
  end, depth = (
    jnp.take_along_axis(x, deepest, axis=1) for x in (at, positions)
  )
  slots = end - depth + jnp.arange(width)[None]
  return {
    **read,
    'tokens': flat(columns['tokens'])[at],
    'positions': positions,
    'segments': there.astype(jnp.int32),
    'mask': row(there & flat(columns['mask'])[at]),
    'before': row(nodes[jnp.maximum(at - 1, 0)]),
    'paths': nodes[jnp.clip(slots, 0, rows * width - 1)],
  }


def spread(
  made: Mapping[str, jax.Array], columns: Mapping[str, Any]
) -> dict[str, jax.Array]:
  """Columns of the trie, [1, N * BLOCK, ...], as those of rows, [R, T, ...].

  Off the mask they are 0.
  """
  nodes, mask = columns[NODES], columns['mask']

  def gather(x):
    found = x.reshape(-1, *x.shape[2:])[nodes]
    seen = mask.reshape(*mask.shape, *(1,) * (found.ndim - 2))
    return jnp.where(seen, found, jnp.zeros((), found.dtype))

  return {name: gather(x) for name, x in made.items()}


def of_rows(columns: Mapping[str, Any]) -> dict[str, Any]:
  """The columns without those of the trie, which are no method's."""
  return {n: x for n, x in columns.items() if n not in (PLACES, NODES)}


def _code(columns) -> np.ndarray:
  """What makes tokens alike, int32 [B, T, K], so that its bytes are ordered."""
  shape = columns['tokens'].shape
  read = [columns['tokens'], *(columns[n] for n in _READ if n in columns)]
  bits = lambda x: x.view(np.int32) if x.dtype == np.float32 else x
  parts = [bits(np.asarray(x)).reshape(*shape, -1) for x in read]
  return np.ascontiguousarray(np.concatenate(parts, -1), '>i4')


def _trie(code, positions, segments, mask) -> tuple[np.ndarray, np.ndarray]:
  """Where each node can be read, [n], and the node of each token, [R * T].

  In the order of their bytes, the longest beginning that a sequence shares with
  any before it is the one it shares with the last.
  """
  nodes = np.zeros(len(code), np.int32)
  begins = np.flatnonzero((positions == 0) & (segments > 0))
  after = np.pad(segments[:, 1:], ((0, 0), (0, 1)))
  ends = np.flatnonzero((segments > 0) & (segments != after)) + 1
  # Backwards, one that begins another comes after it, and adds nothing.
  order = sorted(
    zip(begins.tolist(), ends.tolist()),
    key=lambda pair: code[slice(*pair)].tobytes(),
    reverse=True,
  )
  used, last = 0, (0, 0)
  for begin, end in order:
    shared = _shared(code[slice(*last)], code[begin:end])
    nodes[begin : begin + shared] = nodes[last[0] : last[0] + shared]
    fresh = end - begin - shared
    nodes[begin + shared : end] = np.arange(used, used + fresh)
    used += -(-fresh // BLOCK) * BLOCK
    last = begin, end
  places = np.full(used, -1, np.int32)
  for where in (segments > 0, mask):  # the later ones count
    at = np.flatnonzero(where)
    places[nodes[at]] = at
  return places, nodes


def _shared(one: np.ndarray, other: np.ndarray) -> int:
  """How many tokens two sequences have in common at their beginning."""
  n = min(len(one), len(other))
  differ = np.any(one[:n] != other[:n], axis=1)
  return int(np.argmax(differ)) if differ.any() else n


def _rounded(n: int) -> int:
  """n or a little more: of four binary digits that are not 0 by rule."""
  step = 1 << max(n.bit_length() - 4, 0)
  return -(-n // step) * step


def share(columns: Mapping[str, Any], placed: Mapping[str, Any]) -> float:
  """Tokens of the tries, by those of the rows: what is left to compute."""
  return float(np.sum(placed[PLACES] >= 0) / np.sum(columns['segments'] > 0))


def check(config: ml_collections.ConfigDict) -> None:
  """Refuses what no trie can be made of, before any compute.

  Raises:
    ValueError: an unknown kind, or groups that no microbatch holds.
  """
  kind, samples = config.updates.prefixes, config.prompts.samples
  if kind not in (OWN, SHARED):
    raise ValueError(
      f'config.updates.prefixes is {kind!r}; set it to {OWN!r}, or to'
      f' {SHARED!r} to compute what sequences begin with once.'
    )
  microbatch = config.updates.microbatch
  if kind == SHARED and samples > microbatch:
    raise ValueError(
      f'config.updates.prefixes is {SHARED!r}, but the {samples} rollouts of a'
      f' prompt do not lie in one microbatch of {microbatch} rows; make'
      f' config.updates.microbatch a multiple of {samples}, or lower'
      ' prompts.samples.'
    )
