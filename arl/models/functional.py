"""The seam between modules and the rest of arl: pure functions over a dict.

Everything outside `arl.models` sees a `Model` and a nested dict of arrays.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

Params = Any  # a nested dict of arrays
Cache = Any  # a tuple over layers of (keys, values), each [B, K, S, D]


class Model(NamedTuple):
  """A causal language model.

  Shapes: B rows, T tokens of a row, N new tokens, S cache slots, D width,
  V vocabulary.

  Attributes:
    init: (key) -> params.
    apply: (params, tokens [B, T], positions [B, T], segments [B, T]) ->
      hidden [B, T, D], after the final norm. A token attends to the tokens
      before it in its row that carry the same segment; 0 marks padding.
    extend: (params, tokens [B, N], positions [B, N], cache) ->
      (hidden [B, N, D], cache). Appends tokens to cached sequences; a position
      of -1 is no token: nothing is written and its hidden means nothing. A
      token attends to cache slots 0..position.
    cache: (B, S) -> an empty cache.
    logits: (params, hidden [..., D]) -> float32 [..., V].
    vocab: V, how many ids the model knows.
    context: the longest sequence it was made for.
  """

  init: Callable[[jax.Array], Params]
  apply: Callable[..., jax.Array]
  extend: Callable[..., tuple[jax.Array, Cache]]
  cache: Callable[[int, int], Cache]
  logits: Callable[[Params, jax.Array], jax.Array]
  vocab: int
  context: int
