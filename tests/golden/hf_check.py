"""Compares a Hugging Face folder with what the reference computed for it.

Beside the model the folder holds expected.npz: input_ids [B, T], logits
[B, T, V], and greedy [B, N], the first PROMPT tokens of the input and what the
reference continued them with; of a mixture of experts also experts
[L, B, T, K], those that each layer chose for each token.
"""

import pathlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from arl.models import functional, hf

PROMPT = 12


class Check(NamedTuple):
  """One comparison: the largest logit error, or how many numbers differ."""

  name: str
  error: float
  ok: bool


def check_folder(folder: pathlib.Path, tolerance: float = 1e-4) -> list[Check]:
  """Compares logits, experts, and greedy text without and with a cache."""
  expected = np.load(pathlib.Path(folder) / 'expected.npz')
  model, params, _ = hf.load(folder)
  tokens = expected['input_ids'].astype(np.int32)
  logits = _logits(model, params, tokens)
  error = float(np.abs(logits - expected['logits']).max())
  checks = [Check('logits', error, error <= tolerance)]
  greedy = expected['greedy'].astype(np.int32)
  for name, follow in (('apply', by_apply), ('extend', by_extend)):
    rows = follow(model, params, greedy[:, :PROMPT], greedy.shape[1])
    wrong = int((rows != greedy).sum())
    checks.append(Check(f'greedy by {name}', wrong, wrong == 0))
  if 'experts' in expected:
    routes = jax.jit(model.routes)(params, *_one_segment(tokens))
    wrong = int((routes != expected['experts'].transpose(1, 2, 0, 3)).sum())
    checks.append(Check('experts', wrong, wrong == 0))
  return checks


def by_apply(
  model: functional.Model, params: functional.Params, prompt, length: int
) -> np.ndarray:
  """Greedy rows [B, length], all of a row computed again for each token."""
  rows = np.zeros([len(prompt), length], np.int32)
  rows[:, : prompt.shape[1]] = prompt
  for t in range(prompt.shape[1], length):
    rows[:, t] = _logits(model, params, rows)[:, t - 1].argmax(-1)
  return rows


def by_extend(
  model: functional.Model, params: functional.Params, prompt, length: int
) -> np.ndarray:
  """Greedy rows [B, length], token by token through a cache."""

  @jax.jit
  def step(cache, token, t):
    positions = jnp.full([len(prompt), 1], t, jnp.int32)
    hidden, cache = model.extend(params, token[:, None], positions, cache)
    return cache, jnp.argmax(model.logits(params, hidden[:, 0]), -1)

  rows = np.zeros([len(prompt), length], np.int32)
  rows[:, : prompt.shape[1]] = prompt
  cache = model.cache(len(prompt), length)
  for t in range(length - 1):
    cache, chosen = step(cache, jnp.asarray(rows[:, t]), t)
    if t + 1 >= prompt.shape[1]:
      rows[:, t + 1] = chosen
  return rows


def _logits(model, params, tokens) -> np.ndarray:
  """Logits [B, T, V] of rows that are all one segment."""
  hidden = jax.jit(model.apply)(params, *_one_segment(tokens))
  return np.asarray(jax.jit(model.logits)(params, hidden))


def _one_segment(tokens):
  """Tokens, positions and segments of those rows."""
  positions = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
  return tokens, positions.astype(np.int32), np.ones_like(tokens)
