"""Log-probs of given tokens, a block of logits at a time."""

import jax
import jax.numpy as jnp

from arl.rollout import decoding


def score_rows(model, top, params, tokens, segments, watched, temperature):
  """Log-probs of tokens given those before them; of the first nothing is said.

  Args:
    model: the model.
    top: how many of the likeliest ids are told as well.
    params: its weights.
    tokens: int32 [b, T], T a multiple of decoding.CHUNK.
    segments: int32 [b, T], 1 on the tokens, then 0.
    watched: int32 [b, n], ids whose log-probs are told as well.
    temperature: scalar > 0.

  Returns:
    By name: 'logp' float32 [b, T], 'watched' [b, T, n] and 'top', ids and
    log-probs, both [b, T, top].
  """
  positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
  hidden = model.apply(params, tokens, positions, segments)
  # What is said of a token, its predecessor's hidden knows.
  before = jnp.pad(hidden[:, :-1], ((0, 0), (1, 0), (0, 0)))
  repeats = tokens.shape[1] // decoding.CHUNK
  blocks = lambda x: x.reshape(-1, decoding.CHUNK, *x.shape[2:])
  ids = jnp.repeat(watched, repeats, axis=0)

  def block(given):
    hidden, tokens, ids = given
    logits = model.logits(params, hidden) / temperature
    logp = jax.nn.log_softmax(logits, axis=-1)
    values, best = jax.lax.top_k(logp, top)
    return {
      'logp': jnp.take_along_axis(logp, tokens[:, None], axis=-1)[:, 0],
      'watched': logp[:, ids],
      'top': (best.astype(jnp.int32), values),
    }

  made = jax.lax.map(block, (blocks(before), blocks(tokens), ids))
  whole = lambda x: x.reshape(*tokens.shape, *x.shape[2:])
  return jax.tree.map(whole, made)
