"""The seam between modules and the rest of arl: pure functions over a dict.

Everything outside `arl.models` sees a `Model` and a nested dict of arrays.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from flax import nnx

from arl.models import layout as layout_lib
from arl.models import lora

Params = Any  # a nested dict of arrays
# A tuple over layers of (keys, values), each [B, H, S, D], and after them, of a
# mixture of experts, those that each token chose, int32 [B, L, S, K].
Cache = Any


class Model(NamedTuple):
  """A causal language model.

  Shapes: B rows, T tokens of a row, N new tokens, S cache slots, D width,
  V vocabulary, L layers, H heads, K experts of a token.

  Where experts are listed all layers count, as SGLang lists them: one without a
  mixture lists 0 for each, which nothing reads.

  Attributes:
    init: (key) -> params.
    apply: (params, tokens [B, T], positions [B, T], segments [B, T],
      experts=None, paths=None, layout=None) -> hidden [B, T, D], after the
      final norm. A token attends to the tokens before it in its row that carry
      the same segment; 0 marks padding. Given experts, int [B, T, L, K], each
      token goes through those, and through its own choice in a layer that has
      -1 for it. Given paths, int [B, S], it attends to the tokens at slots
      0..position of its row's path instead, each named by its place among the
      B * T. A layout says how all that lies on a mesh; see `placed`.
    extend: (params, tokens [B, N], positions [B, N], cache, layout=None) ->
      (hidden [B, N, D], cache). Appends tokens to cached sequences; a position
      of -1 is no token: nothing is written and its hidden means nothing. A
      token attends to cache slots 0..position.
    attention_maxima: (params, tokens, positions, segments), as for `apply` ->
      float32 [L, H], the largest attention logit of each layer and query head
      over the pairs of tokens that see each other; -inf where none do.
    routes: (params, tokens, positions, segments), as for `apply` -> int32
      [B, T, L, K], the experts that each token chooses; those of padding mean
      nothing.
    traced: as `apply` -> (hidden, experts), the result of `apply` and those
      that each router would choose, given where its token came from.
    cache: (B, S) -> an empty cache.
    logits: (params, hidden [..., D]) -> float32 [..., V].
    vocab: V, how many ids the model knows.
    context: the longest sequence it was made for.
    experts: (L, K) of a mixture; (0, 0) of a model without one.
  """

  init: Callable[[jax.Array], Params]
  apply: Callable[..., jax.Array]
  extend: Callable[..., tuple[jax.Array, Cache]]
  attention_maxima: Callable[..., jax.Array]
  routes: Callable[..., jax.Array]
  traced: Callable[..., tuple[jax.Array, jax.Array]]
  cache: Callable[[int, int], Cache]
  logits: Callable[[Params, jax.Array], jax.Array]
  vocab: int
  context: int
  experts: tuple[int, int] = (0, 0)


# Parameters beside the decoder's, which `arl.models.heads` reads.
VALUE_HEAD = 'value_head'


def placed(model: Model, layout: layout_lib.Layout) -> Model:
  """The model, its passes for arrays that lie on a mesh."""
  at = lambda function: functools.partial(function, layout=layout)
  return model._replace(
    apply=at(model.apply), extend=at(model.extend), traced=at(model.traced)
  )


def pure(
  build: Callable[[nnx.Rngs], nnx.Module],
) -> tuple[Callable[[jax.Array], Params], Callable[[Params], Any]]:
  """Takes a module apart into functions: the only place that knows NNX state.

  Args:
    build: makes the module; its only state is `nnx.Param`.

  Returns:
    init: (key) -> params, a nested dict with string keys.
    bind: (params) -> the module holding those params, adapters included. A
      value head among them is no part of it; any other difference is a
      ValueError.
  """
  abstract = nnx.eval_shape(lambda: build(nnx.Rngs(0)))
  graph, _ = nnx.split(abstract)
  expected = shapes(_strings(nnx.to_pure_dict(nnx.state(abstract))))

  def init(key: jax.Array) -> Params:
    return _strings(nnx.to_pure_dict(nnx.state(build(nnx.Rngs(key)))))

  def bind(params: Params):
    params = {k: v for k, v in params.items() if k != VALUE_HEAD}
    params, adapters = lora.apart(params)
    given = shapes(params)
    for name in sorted(expected.keys() | given.keys()):
      if expected.get(name) != given.get(name):
        raise ValueError(
          f'params do not fit the model: {name} is {given.get(name, "missing")}'
          f', expected {expected.get(name, "nothing there")}; use params from '
          'init or load of the same sizes.'
        )
    _, state = nnx.split(abstract)
    nnx.replace_by_pure_dict(state, params)
    module = nnx.merge(graph, state)
    lora.attach(module, adapters)
    return module

  return init, bind


def _strings(tree: Any) -> Any:
  """Lists of layers have int keys; checkpoints and sorting want strings."""
  if not isinstance(tree, dict):
    return tree
  return {str(key): _strings(value) for key, value in tree.items()}


def shapes(params: Params) -> dict[str, tuple[int, ...]]:
  """The shape of each parameter, by its path."""
  leaves = jax.tree_util.tree_leaves_with_path(params)
  return {
    jax.tree_util.keystr(path, simple=True, separator='/'): leaf.shape
    for path, leaf in leaves
  }
