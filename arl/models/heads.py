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

  Raises:
    ValueError: an unknown column, a chunk below 1, or no value head.
  """
  _check(params, want, chunk)
  rows, length = tokens.shape
  read = functools.partial(
    _read, model, params, jnp.asarray(temperature, jnp.float32), frozenset(want)
  )
  states = hidden[:, :-1].reshape(-1, hidden.shape[-1])
  targets = tokens[:, 1:].reshape(-1)
  flat = (
    read(states, targets)
    if chunk is None
    else _map(read, states, targets, chunk)
  )
  first = ((0, 0), (1, 0))
  return {
    name: jnp.pad(column.reshape(rows, length - 1), first)
    for name, column in flat.items()
  }


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


def _map(read, states, targets, chunk):
  """read() in chunks, each computed again in the backward pass."""
  total = len(targets)
  count = -(-total // chunk)
  tail = count * chunk - total
  # A chunk takes every count-th token, so that it holds some of each device's
  # rows and no chunk has to be gathered.
  split = lambda x: x.reshape(chunk, count, *x.shape[1:]).swapaxes(0, 1)
  states = split(jnp.pad(states, ((0, tail), (0, 0))))
  targets = split(jnp.pad(targets, (0, tail)))
  step = jax.checkpoint(lambda pair: read(*pair))
  flat = jax.lax.map(step, (states, targets))
  return {
    name: x.swapaxes(0, 1).reshape(-1)[:total] for name, x in flat.items()
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
