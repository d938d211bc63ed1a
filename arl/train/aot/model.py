"""What a layout costs, by formulas: work, depth, bytes and memory of a device.

The formulas say what the programs of `arl.train.aot.programs` must do if the
compiler does what the layout means; beside the compiled numbers they show where
it does not. Of a case with axes d, f, e, c, t (data, fsdp, expert, context,
tensor), rows r and length T:

  n = r T / c           tokens of a device in a microbatch
  part(k) = (k - 1) / k what a ring of k devices sends of what it makes

Numbers are bfloat16, 2 bytes, where the model computes, and float32, 4 bytes,
in parameters, moments, gradients of the update, scores and logits.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from arl.models import blocks, grouped, sizes
from arl.train import flops
from arl.train.aot import cases, chips, counting

# Passes through a layer: forward, again since only its input was kept, and the
# backward pass, which has two products for each of the others.
_PASSES, _PRODUCTS = 3, 4


class Expected(NamedTuple):
  """What the formulas say of one device in one run of a program.

  Attributes:
    flops: of products.
    useful: of these, without what is computed again and what a mask hides.
    bytes: to and from HBM, at least.
    sent: bytes of collectives, by kind.
    chain: products and collectives one after another.
    memory: bytes, by what they hold.
  """

  flops: float
  useful: float
  bytes: float
  sent: Mapping[str, float]
  chain: float
  memory: Mapping[str, float]


def expected(case: cases.Case) -> Expected:
  """The formulas of the case's program."""
  return _training(case) if case.program == cases.TRAIN else _sampling(case)


def part(k: int) -> float:
  """(k - 1) / k."""
  return (k - 1) / k


def matrices(size: sizes.Sizes) -> dict[str, float]:
  """Numbers of a layer's matrices, and of all tables of the vocabulary.

  attention  2 D (H + K) h        h: width of a head, K: key heads
  mlp        3 D F, or of a mixture the router, D E
  experts    3 E D W
  tables     V D, twice where the head is not the embedding
  """
  heads = (size.heads + size.kv_heads) * size.head_dim
  mixture = size.mixture
  return {
    'attention': 2.0 * size.width * heads,
    'mlp': (
      3.0 * size.width * size.mlp_width
      if mixture is None
      else float(size.width * mixture.experts)
    ),
    'experts': (
      3.0 * mixture.experts * size.width * mixture.width if mixture else 0.0
    ),
    'tables': float(size.vocab * size.width * (1 if size.tied else 2)),
  }


def parameters(size: sizes.Sizes) -> float:
  """Numbers of the model, but for its norms."""
  each = matrices(size)
  layer = each['attention'] + each['mlp'] + each['experts']
  return size.layers * layer + each['tables']


def _shares(case: cases.Case) -> tuple[float, float]:
  """Of matrices and tables, and of experts: numbers that a device holds."""
  axes, each, size = case.axes, matrices(case.size), case.size
  common = size.layers * (each['attention'] + each['mlp']) + each['tables']
  split = axes['fsdp'] * axes['tensor']
  experts = size.layers * each['experts'] / (split * axes['expert'])
  return common / split, experts


def spread(case: cases.Case) -> counting.Found:
  """How many tiles of experts there are where tokens choose them evenly.

  Of the tokens of its group n K picks come to a device, which has room for
  n e min(K, E / e).
  """
  mixture, e = case.size.mixture, case.axes['expert']
  if mixture is None:
    return counting.NOTHING
  n = case.rows
  if case.program == cases.TRAIN:
    n = n * case.length // case.axes['context']
  experts, picks = mixture.experts // e, n * mixture.chosen
  room = n * e * min(mixture.chosen, experts)
  most = grouped.ON_CPU if case.target == chips.CPU else grouped.ELSEWHERE
  height = grouped.tile_height(room, mixture.experts, most)
  return counting.Found(within=experts * math.ceil(picks / experts / height))


def _training(case: cases.Case) -> Expected:
  """An update.

  work    M n (4 (token + V's) + pairs) / t, see `_pairs`; useful are three
          passes, over half of the pairs
  depth   M (3 L (6 + 2 [t > 1] + 2 [e > 1]) + chunks (3 + 3 [f > 1] + 3
          [d f e > 1])): six products follow one another in a layer: into heads,
          scores, mixture, out, in and out of the hidden units. A chunk of the
          head has three, gathers its table for each, asks twice whether any
          device wants it, and adds up a gradient
  """
  axes, size = case.axes, case.size
  n = case.rows * case.length / axes['context']
  t, times = axes['tensor'], case.microbatches
  token = flops.of_token(size) + flops.of_choice(size)
  pairs = flops.of_pair(size) * case.length
  each = 6 + 2 * (t > 1) + 2 * (axes['expert'] > 1)
  chunk = 3 + 3 * (axes['fsdp'] > 1) + 3 * (case.parts > 1)
  chain = _PASSES * size.layers * each + chunk * _chunks(case)
  return Expected(
    times * n * (_PRODUCTS * token + _pairs(case)) / t,
    times * 3 * n * (token + pairs / 2) / t,
    times * _moved(case, n),
    {kind: times * x for kind, x in _sent(case, n).items()},
    times * chain,
    _held(case, n),
  )


def _seen(case: cases.Case) -> float:
  """Tokens that scores of a token are computed for, on average.

  A stage of queries has the keys up to its end, see `arl.models.blocks`; over a
  context axis all of the row.
  """
  length = case.length
  if case.axes['context'] > 1:
    return length
  stages = blocks.stages(length)
  return sum((end - first) * end for first, end in stages) / length


def _pairs(case: cases.Case) -> float:
  """FLOPs of attention for each token in a microbatch.

  Of two products a pass; the backward pass has four, and where attention goes
  in blocks it computes scores once more.
  """
  again = 0.5 if case.axes['context'] == 1 else 0.0
  return (_PRODUCTS + again) * flops.of_pair(case.size) * _seen(case)


def _chunks(case: cases.Case) -> int:
  """How often the head reads and returns a part of the tokens."""
  each = max(case.chunk // case.rows, 1)
  return -(-(case.length // case.axes['context'] - 1) // each)


def _moved(case: cases.Case, n: float) -> float:
  """Bytes to and from HBM in a microbatch, at least.

  matrices  3 passes write a gathered copy and read it: 3 * 2 * 2 P / t
  scores    of all tokens and those that they are computed for, float32: written
            and read in 3 passes, and once more in the backward pass: 8 times
  states    of a layer and pass, bfloat16: about 12 D + 6 (H h + F) / t
  head      V / t logits a token, float32, 8 times; in each chunk its table 4
            times, and the gradient of it, float32, 6 times: written, added up
            over devices and to the sum
  sums      of gradients, float32: read twice, written once
  """
  size, axes, each = case.size, case.axes, matrices(case.size)
  t = axes['tensor']
  experts = each['experts'] / axes['expert']
  layer = (each['attention'] + each['mlp'] + experts) / t
  hidden = _hidden(size)
  scores = n * size.heads / t * _seen(case)
  wide = size.heads * size.head_dim + hidden
  states = n * (12 * size.width + 6 * wide / t)
  table = size.width * _chunks(case) * (4 * 2 + 6 * 4)
  head = size.vocab * (8 * 4 * n + table) / t
  sums = 3 * 4 * sum(_shares(case))
  return (
    size.layers * (_PASSES * (4 * layer + 2 * states) + 8 * 4 * scores)
    + head
    + sums
  )


def _hidden(size: sizes.Sizes) -> int:
  mixture = size.mixture
  return mixture.chosen * mixture.width if mixture else size.mlp_width


def _sent(case: cases.Case, n: float) -> dict[str, float]:
  """Bytes that a device sends in a microbatch.

  all-gather      matrices over fsdp, 3 passes: 3 * 2 P part(f) / t; the head's
                  table the same in each chunk; over context keys and values, 2
                  passes: 2 * 2 n K h part(c) c; over expert states, 3 passes:
                  3 * 2 n D (e - 1)
  reduce-scatter  gradients of matrices over fsdp, 2 P part(f) / t; of keys and
                  values; sums of experts, 3 * 2 n D (e - 1)
  all-reduce      over tensor 2 sums a layer and pass: 6 * 2 n D 2 part(t); over
                  data what fsdp left of the gradients; the head's gradient,
                  float32, over all parts of the batch in each chunk
  all-to-all      states looked up in a table that is split by width, both ways
  """
  size, axes, each = case.size, case.axes, matrices(case.size)
  d, f, e, c, t = (
    axes[k] for k in ('data', 'fsdp', 'expert', 'context', 'tensor')
  )
  layers, width = size.layers, size.width
  own = (each['attention'] + each['mlp'] + each['experts'] / e) / t
  table = size.vocab * width / t
  keys = 2 * n * size.kv_heads * size.head_dim / t
  states = n * width * (e - 1)
  gathered = 2 * _PASSES * (layers * own + table * _chunks(case)) * part(f)
  gathered += layers * 2 * (2 * keys * (c - 1) + _PASSES * states)
  scattered = 2 * layers * (own * part(f) + keys * (c - 1) + _PASSES * states)
  left = own / f * part(d)
  if e > 1:  # what experts do not split is summed over their axis too
    left = (own - each['experts'] / e / t) / f * part(d * e)
  summed = 2 * (
    2 * layers * left
    + 4 * table * part(case.parts) * _chunks(case)
    + layers * 2 * _PASSES * 2 * n * width * part(t)
  )
  made = {
    'all-gather': gathered,
    'reduce-scatter': scattered,
    'all-reduce': summed,
    'all-to-all': 2 * 2 * n * width * part(f),
  }
  return {kind: size for kind, size in made.items() if size}


def _held(case: cases.Case, n: float) -> dict[str, float]:
  """Bytes that a device holds at the worst moment.

  state      parameters and two moments, float32: 12 P / (f e t)
  gradients  the sum, and those of a microbatch: 8 P / (f e t)
  inputs     of all layers, bfloat16: 2 L n D
  work       the greater of a layer's, three times the scores of a block, or of
             all of a row's part over a context axis, and the head's: a chunk's
             logits three times, its table and the sum of its gradient whole
  """
  size, t = case.size, case.axes['tensor']
  own = sum(_shares(case))
  split = case.axes['context'] > 1
  block = min(blocks.block_of(case.length), case.length)
  queries = n if split else case.rows * block
  scores = queries * size.heads / t * case.length
  logits = case.chunk * size.vocab / t
  table = size.vocab * size.width / t
  return {
    'state': 12 * own,
    'gradients': 8 * own,
    'inputs': 2 * size.layers * n * size.width,
    'work': max(3 * 4 * scores, 3 * 4 * logits + (2 + 2 * 4) * table),
  }


def kept(case: cases.Case) -> float:
  """Bytes of temporaries that a layer needs whatever else there is.

  In training its input and its gradients, see `_held`; a sampler's caches and
  parameters are no temporaries.
  """
  if case.program != cases.TRAIN:
    return 0.0
  held = expected(case._replace(layers=2)).memory
  less = expected(case._replace(layers=1)).memory
  return sum(held[k] - less[k] for k in ('gradients', 'inputs'))


def _sampling(case: cases.Case) -> Expected:
  """A round: one token of each sequence.

  work    n (token + S pair + V's) / t, with S slots of the cache
  depth   L (6 + 2 [t > 1] + 2 [e > 1]) + 1
  bytes   parameters once, 2 P / t, experts / e of them, and the keys and values
          of all slots, 2 * 2 r S K h L / t
  sent    over tensor 2 sums a layer: 2 * 2 n D 2 part(t); over expert states,
          2 n D (e - 1), and sums of experts, float32, 4 n D (e - 1)
  memory  parameters and cache
  """
  size, t, e = case.size, case.axes['tensor'], case.axes['expert']
  n, layers = case.rows, case.size.layers
  token = flops.of_token(size) + flops.of_choice(size)
  work = n * (token + case.length * flops.of_pair(size)) / t
  common, experts = _shares(case)
  weights = 2 * (common + experts) * case.axes['fsdp']
  slots = case.rows * case.length * layers
  cache = 2 * 2 * slots * size.kv_heads * size.head_dim / t
  states = layers * n * size.width
  sent = {
    'all-gather': 2 * states * (e - 1),
    'reduce-scatter': 4 * states * (e - 1),
    'all-reduce': 2 * 2 * states * 2 * part(t),
  }
  return Expected(
    work,
    work,
    weights + cache,
    {kind: size for kind, size in sent.items() if size},
    layers * (6 + 2 * (t > 1) + 2 * (e > 1)) + 1,
    {'parameters': weights, 'cache': cache},
  )
