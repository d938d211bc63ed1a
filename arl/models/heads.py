"""From hidden states to columns: the only tensors as wide as the vocabulary.

Position t of a column speaks of tokens[:, t] given those before it, so it reads
hidden[:, t - 1]; at position 0 a column is 0.
"""

import functools
from collections.abc import Collection

import jax
import jax.numpy as jnp

from arl.models import functional

COLUMNS = frozenset({'logp', 'entropy', 'value'})


def columns(
  model: functional.Model,
  params: functional.Params,
  hidden: jax.Array,
  tokens: jax.Array,
  want: Collection[str],
  *,
  temperature: jax.Array | float = 1.0,
  chunk: int | None = None,
  where: jax.Array | None = None,
) -> dict[str, jax.Array]:
  """Columns of a batch, float32 [B, T].

  Args:
    model: gives the logits.
    params: of the model, with a value head where 'value' is wanted.
    hidden: [B, T, D], what `model.apply` returned for the tokens.
    tokens: int [B, T].
    want: a subset of COLUMNS. 'logp' is the log-probability of the token,
      'entropy' that of the distribution it came from, in nats, both of
      softmax(logits / temperature); 'value' is a linear read of the state
      before the token was chosen.
    temperature: a positive scalar.
    chunk: how many tokens to hold logits for at a time, forward and backward;
      None for all. It changes memory, not the result.
    where: bool [B, T], the positions that are read; a column is 0 elsewhere,
      and a chunk without any costs nothing. None for all.

  Raises:
    ValueError: an unknown column, a chunk below 1, or no value head.
  """
  _check(params, want, chunk)
  read = functools.partial(
    _read, model, params, jnp.asarray(temperature, jnp.float32), frozenset(want)
  )
  states, targets = hidden[:, :-1], tokens[:, 1:]
  if chunk is None:
    made = _whole(read, states, targets)
  elif where is None:
    made = _map(read, states, targets, jnp.ones(targets.shape, bool), chunk)
  else:
    made = _packed(read, states, targets, where[:, 1:], chunk)
  made = {
    name: jnp.pad(column, ((0, 0), (1, 0))) for name, column in made.items()
  }
  if where is None:
    return made
  return {name: jnp.where(where, column, 0) for name, column in made.items()}


def with_value_head(params: functional.Params, width: int) -> functional.Params:
  """The params and a value head of zeros for states [..., width].

  Raises:
    ValueError: they have one already.
  """
  if functional.VALUE_HEAD in params:
    raise ValueError(
      'params already have a value head; drop '
      f'params[{functional.VALUE_HEAD!r}] first to start anew.'
    )
  head = {
    'weight': jnp.zeros([width], jnp.float32),
    'bias': jnp.zeros([], jnp.float32),
  }
  return {**params, functional.VALUE_HEAD: head}


def _read(model, params, temperature, want, states, targets):
  """Columns [n] of states [n, D] and the tokens [n] that followed."""
  out = {}
  if 'value' in want:
    head = params[functional.VALUE_HEAD]
    weight, bias = (head[k].astype(jnp.float32) for k in ('weight', 'bias'))
    out['value'] = states.astype(jnp.float32) @ weight + bias
  if want <= {'value'}:
    return out
  scores = model.logits(params, states) / temperature
  total = _log_total(scores)
  if 'logp' in want:
    chosen = jnp.take_along_axis(scores, targets[:, None], axis=-1)[:, 0]
    out['logp'] = chosen - total
  if 'entropy' in want:
    # Centered first: total - sum(p z) would cancel large scores.
    logs = scores - total[:, None]
    out['entropy'] = -(jnp.exp(logs) * logs).sum(-1)
  return out


@jax.custom_vjp
def _log_total(scores):
  """logsumexp over the last axis, of the same bits with and without a gradient.

  By its own rule the backward pass needs the exponentials of the forward pass;
  keeping them changes how XLA sums them, and with that the last bit.
  """
  return jax.nn.logsumexp(scores, axis=-1)


def _log_total_forward(scores):
  total = _log_total(scores)
  return total, (scores, total)


def _log_total_backward(kept, cotangent):
  scores, total = kept
  return (cotangent[..., None] * jnp.exp(scores - total[..., None]),)


_log_total.defvjp(_log_total_forward, _log_total_backward)


def _whole(read, states, targets):
  """read() of states [B, N, D] and targets [B, N] at once."""
  flat = read(states.reshape(-1, states.shape[-1]), targets.reshape(-1))
  return {name: x.reshape(targets.shape) for name, x in flat.items()}


def _packed(read, states, targets, where, chunk):
  """_map() with the tokens to read first in each row: in the fewest chunks."""
  order = jnp.argsort(~where, axis=1, stable=True)
  pick = functools.partial(jnp.take_along_axis, axis=1)
  made = _map(
    read,
    pick(states, order[..., None]),
    pick(targets, order),
    pick(where, order),
    chunk,
  )
  back = jnp.argsort(order, axis=1)
  return {name: pick(column, back) for name, column in made.items()}


def _map(read, states, targets, where, chunk):
  """read() in chunks, each computed again in the backward pass."""
  rows, length = targets.shape
  count = -(-rows * length // chunk)
  tail = count * chunk - rows * length

  # A chunk takes a few positions of every row, so that it holds some of each
  # device's rows and no chunk has to be gathered.
  def split(x):
    flat = x.swapaxes(0, 1).reshape(rows * length, *x.shape[2:])
    flat = jnp.pad(flat, ((0, tail), *((0, 0),) * (flat.ndim - 1)))
    return flat.reshape(count, chunk, *x.shape[2:])

  def nothing(*pair):
    shapes = jax.eval_shape(read, *pair)
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

  @jax.checkpoint
  def step(part):
    *pair, wanted = part
    return jax.lax.cond(jnp.any(wanted), read, nothing, *pair)

  flat = jax.lax.map(step, (split(states), split(targets), split(where)))
  return {
    name: x.reshape(-1)[: rows * length].reshape(length, rows).swapaxes(0, 1)
    for name, x in flat.items()
  }


def _check(params, want, chunk):
  unknown = sorted(set(want) - COLUMNS)
  if unknown:
    raise ValueError(
      f'heads.columns makes {sorted(COLUMNS)}, not {unknown}; compute those '
      'elsewhere.'
    )
  if chunk is not None and chunk < 1:
    raise ValueError(f'chunk is a positive number of tokens, not {chunk}.')
  if 'value' in want and functional.VALUE_HEAD not in params:
    raise ValueError(
      "column 'value' needs a value head in params; add one with "
      'heads.with_value_head.'
    )
