"""Models that say a number of what was said: by ids or by texts, in batches."""

import functools
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from arl import episode
from arl.models import functional, heads, hf, tokenizers
from arl.rewards import verdict
from arl.train import export

_ROWS = 8  # sequences that are read at a time
_SHORTEST = 32  # tokens of a row at least: widths are powers of two from there
_CHUNK = 128  # tokens whose logits are held at a time


class Said(NamedTuple):
  """What is judged.

  Attributes:
    tokens: int [n].
    mask: bool [n], what the policy said.
    turn: int [n].
  """

  tokens: np.ndarray
  mask: np.ndarray
  turn: np.ndarray


class Judge:
  """A model that says of each sequence a number.

  Attributes:
    read: sequences -> an array [n, ...] for each, over its tokens.
    of: (what was said, what was read of it) -> its score.
    tokenizer: of the model.
    context: tokens that it can read.
    vocab: ids that it knows.
  """

  def __init__(self, read, of, tokenizer, context, vocab):
    self.read, self.of = read, of
    self.tokenizer, self.context, self.vocab = tokenizer, context, vocab

  def score(self, texts: Sequence[str]) -> list[verdict.Verdict]:
    """One verdict a text, all of which counts as said in one turn."""
    made: list[Said | str] = []
    for text in texts:
      try:
        made.append(_all_said(tokenizers.encode(self.tokenizer, text)))
      except ValueError as error:
        made.append(str(error))
    spelled = [one for one in made if isinstance(one, Said)]
    judged = iter(self.judge(spelled))
    return [
      verdict.error(one) if isinstance(one, str) else next(judged)
      for one in made
    ]

  def __call__(self, played: Sequence[episode.Episode]) -> np.ndarray:
    """A score a trajectory: a term of the reward.

    Raises:
      ValueError: one that cannot be judged; a policy would be paid for it.
    """
    judged = self.judge([Said(e.tokens, e.mask, e.turn) for e in played])
    for one, each in zip(played, judged):
      if each.score is None:
        raise ValueError(f'a rollout of task {one.task.id!r}: {each.detail}.')
    return np.array(verdict.scores(judged))

  def judge(self, said: Sequence[Said]) -> list[verdict.Verdict]:
    """One verdict each; an error where there is none."""
    wrong = [self._wrong(one) for one in said]
    good = [one for one, why in zip(said, wrong) if not why]
    scored = iter([
      verdict.scored(self.of(one, seen))
      for one, seen in zip(good, self.read([one.tokens for one in good]))
    ])  # fmt: skip
    return [verdict.error(why) if why else next(scored) for why in wrong]

  def _wrong(self, one: Said) -> str:
    """Why it cannot be judged; '' if it can."""
    n = len(one.tokens)
    if not np.any(one.mask):
      return 'nothing was said'
    if n > self.context:
      return f'it has {n} tokens, but the reward model reads {self.context}'
    if np.max(one.tokens) >= self.vocab:
      return (
        f'it has the id {np.max(one.tokens)}, but the reward model knows'
        f' {self.vocab}; give one with the tokenizer of the policy'
      )
    return ''


def load(path: str | os.PathLike) -> hf.Loaded:
  """A reward model: a model folder with its value head.

  Raises:
    ValueError: it has no value head, or one of bins.
  """
  folder = export.critic_folder(path)
  head, made = export.load_head(folder), hf.load(folder, cast='float32')
  if head['bias'].ndim:
    raise ValueError(
      f'{path} is a critic of {head["bias"].shape[0]} bins; a reward model has'
      ' one number: train it with config.model.value_bins = 0.'
    )
  return made._replace(params={**made.params, functional.VALUE_HEAD: head})


def by_value(path: str | os.PathLike, of: Callable) -> Judge:
  """A judge by the values after tokens, [n], of a reward model.

  Args:
    path: as of `load`.
    of: (what was said, values) -> its score.

  Raises:
    ValueError: as of `load`.
  """
  return _judge(export.critic_folder(path), load(path), reader, of)


def by_logits(path: str | os.PathLike, of: Callable) -> Judge:
  """A judge by what a model of language thinks of each token.

  Args:
    path: of its folder.
    of: (what was said, [n, 2]: the logits of the tokens, and the logsumexp of
      those that each was chosen from) -> its score.
  """
  return _judge(path, hf.load(path, cast='float32'), _implied, of)


def _judge(folder, made: hf.Loaded, reading, of) -> Judge:
  told = functools.partial(read, reading(made.model), made.params)
  tokenizer = tokenizers.load(folder)
  return Judge(told, of, tokenizer, made.model.context, made.model.vocab)


def _all_said(ids: Sequence[int]) -> Said:
  tokens = np.asarray(ids, np.int32)
  return Said(tokens, np.ones(len(ids), bool), np.zeros(len(ids), np.int32))


def reader(model: functional.Model) -> Callable:
  """What reads values for `read`.

  It is (params, tokens [B, T], segments [B, T]) -> the value after each token.
  """

  @jax.jit
  def run(params, tokens, segments):
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    hidden = model.apply(params, tokens, positions, segments)
    want = frozenset({'value_after'})
    return heads.columns(model, params, hidden, tokens, want)['value_after']

  return run


def _implied(model: functional.Model) -> Callable:
  """(params, tokens, segments) -> chosen logits and logsumexps, [B, T, 2]."""

  @jax.jit
  def run(params, tokens, segments):
    rows, width = tokens.shape
    positions = jnp.broadcast_to(jnp.arange(width), tokens.shape)
    hidden = model.apply(params, tokens, positions, segments)

    def read(part):
      states, ids = part
      logits = model.logits(params, states).astype(jnp.float32)
      chosen = jnp.take_along_axis(logits, ids[:, None], axis=-1)[:, 0]
      return jnp.stack([chosen, jax.nn.logsumexp(logits, axis=-1)], axis=-1)

    chunk = min(_CHUNK, width)
    states = hidden.reshape(-1, chunk, hidden.shape[-1])
    after = jnp.roll(tokens, -1, axis=1).reshape(-1, chunk)
    made = jax.lax.map(read, (states, after)).reshape(rows, width, 2)
    return jnp.roll(made, 1, axis=1)

  return run


def read(run, params, sequences: Sequence[np.ndarray]) -> list[np.ndarray]:
  """What a model says of each token of each sequence.

  Args:
    run: as of `reader`.
    params: of the model.
    sequences: ids, int [n] each.

  Returns:
    [n, ...] each.
  """
  order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
  made: dict[int, np.ndarray] = {}
  for first in range(0, len(order), _ROWS):
    part = order[first : first + _ROWS]
    longest = len(sequences[part[-1]])
    width = max(_SHORTEST, 1 << (longest - 1).bit_length())
    tokens = np.zeros((_ROWS, width), np.int32)
    segments = np.zeros_like(tokens)
    for row, i in enumerate(part):
      tokens[row, : len(sequences[i])] = sequences[i]
      segments[row, : len(sequences[i])] = 1
    told = jax.device_get(run(params, tokens, segments))
    made |= {i: told[row, : len(sequences[i])] for row, i in enumerate(part)}
  return [made[i] for i in range(len(sequences))]
