"""Self-contained HTML pages: numbers, curves and transcripts."""

import base64
import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jinja2
import numpy as np

from arl import episode


class Estimate(NamedTuple):
  """A rate with its interval, all in [0, 1], and how many tries it is of."""

  value: float
  low: float
  high: float
  n: int


class Score(NamedTuple):
  """One rate before and after training."""

  name: str
  before: Estimate
  after: Estimate


class Piece(NamedTuple):
  """One token.

  Attributes:
    text: as it reads, special tokens written out.
    sampled: whether the policy chose it.
    logp: its log-probability under the sampler; not shown unless sampled.
    advantage: what it is credited with; not shown unless sampled.
    id: in the vocabulary.
  """

  text: str
  sampled: bool
  logp: float
  advantage: float
  id: int


class Transcript(NamedTuple):
  """One episode, token by token, with its total reward and final status."""

  title: str
  pieces: Sequence[Piece]
  reward: float
  status: str


class _Token(NamedTuple):
  """A piece as the template shows it."""

  text: str
  kind: str
  tint: str
  tip: str


def transcript(
  title: str,
  source: episode.Episode,
  advantage: np.ndarray,
  text: Callable[[int], str],
) -> Transcript:
  """An episode as a transcript.

  Args:
    title: its heading, such as the task and the step of the policy.
    source: the episode, n tokens.
    advantage: [n], read on the mask.
    text: (token id) -> how the token reads, special tokens written out.

  Raises:
    ValueError: the advantage is not aligned with the tokens.
  """
  if np.shape(advantage) != source.tokens.shape:
    raise ValueError(
      f'transcript: got an advantage of shape {np.shape(advantage)} for '
      f'{len(source.tokens)} tokens, expected one number a token; take the '
      "episode's own stretch of its row."
    )
  pieces = [
    Piece(
      text(int(token)), bool(sampled), float(logp), float(credit), int(token)
    )
    for token, sampled, logp, credit in zip(
      source.tokens, source.mask, source.logp, advantage, strict=True
    )
  ]
  return Transcript(title, pieces, episode.total_reward(source), source.status)


def page(
  title: str,
  scores: Sequence[Score],
  facts: Mapping[str, str],
  curves: bytes,
  config: str,
  pairs: Sequence[tuple[Transcript, Transcript]],
  warnings: Sequence[str],
) -> str:
  """The page of a run, as HTML that loads nothing from anywhere.

  Args:
    title: the run, in a few words.
    scores: the rates before and after training.
    facts: name -> value, both as text: wall time, seed, config hash, versions.
    curves: the bytes of a PNG, of `arl.report.curves.curves`.
    config: the whole configuration as text.
    pairs: (before, after) of the same task.
    warnings: of the run, in order.

  Raises:
    ValueError: the curves are no PNG.
  """
  if not curves.startswith(b'\x89PNG\r\n\x1a\n'):
    raise ValueError(
      f'page: got curves that start with {curves[:8]!r}, expected the bytes of '
      'a PNG file; read the file that curves() wrote.'
    )
  scale = _scale([one for pair in pairs for one in pair])
  return _render(
    'page.html',
    title=title,
    scores=scores,
    facts=facts,
    curves=base64.b64encode(curves).decode('ascii'),
    config=config,
    pairs=[[_shown(one, scale) for one in pair] for pair in pairs],
    warnings=warnings,
    scale=f'{scale:.2g}',
  )


def credit(
  title: str,
  methods: tuple[str, str],
  facts: Mapping[str, str],
  pairs: Sequence[tuple[Transcript, Transcript]],
) -> str:
  """A page on which two methods credit the same episodes, as HTML.

  Args:
    title: in a few words.
    methods: the names of both.
    facts: name -> value, both as text.
    pairs: of each episode what either method gives it.

  Raises:
    ValueError: there are no episodes.
  """
  if not pairs:
    raise ValueError('credit: got no episodes, expected one or more to show.')
  sides = []
  for name, side in zip(methods, zip(*pairs)):
    scale = _scale(side)
    facts = {**facts, f'largest advantage of {name}': f'{scale:.3g}'}
    named = [one._replace(title=f'{name}: {one.title}') for one in side]
    sides.append([_shown(one, scale) for one in named])
  both = list(zip(*sides))
  return _render('credit.html', title=title, facts=facts, pairs=both)


def _render(name: str, **values) -> str:
  """A page of this package from its template."""
  environment = jinja2.Environment(
    loader=jinja2.PackageLoader('arl', 'report'),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )
  return environment.get_template(name).render(**values)


def visible(text: str) -> str:
  """The text with everything shown that has no ink of its own.

  A newline becomes a return sign and a newline, a tab an arrow, other control
  and format characters their code in brackets, and nothing at all a zero.
  """
  return ''.join(_visible(character) for character in text) or '∅'


def _visible(character: str) -> str:
  if character == '\n':
    return '⏎\n'
  if character == '\t':
    return '⇥'
  if character != ' ' and unicodedata.category(character)[0] in 'CZ':
    return f'[U+{ord(character):04X}]'
  return character


def _scale(transcripts: Sequence[Transcript]) -> float:
  """The largest finite |advantage| of a sampled token: the deepest tint."""
  sizes = [
    abs(piece.advantage)
    for one in transcripts
    for piece in one.pieces
    if piece.sampled and math.isfinite(piece.advantage)
  ]
  return max(sizes, default=0.0)


def _shown(one: Transcript, scale: float) -> Mapping[str, object]:
  return {
    'title': one.title,
    'reward': f'{one.reward:.3g}',
    'status': one.status,
    'sampled': sum(piece.sampled for piece in one.pieces),
    'total': len(one.pieces),
    'tokens': [_token(piece, scale) for piece in one.pieces],
  }


def _token(piece: Piece, scale: float) -> _Token:
  text = visible(piece.text)
  if not piece.sampled:
    return _Token(text, 'given', '0', f'id {piece.id}, not sampled')
  advantage = piece.advantage
  tip = f'id {piece.id}, logp {piece.logp:.4g}, advantage {advantage:+.4g}'
  if not math.isfinite(advantage):
    return _Token(text, 'broken', '0', tip)
  kind = 'up' if advantage > 0 else 'down' if advantage < 0 else 'even'
  tint = abs(advantage) / scale if scale else 0
  return _Token(text, kind, f'{tint:.2f}', tip)
