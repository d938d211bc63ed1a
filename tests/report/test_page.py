import base64
import html.parser
import math

import numpy as np
import pytest

from arl import episode
from arl.report import page

PNG = b'\x89PNG\r\n\x1a\n and the rest'
VOID = {'meta', 'img', 'line', 'rect', 'circle', 'br', 'link'}


class Reader(html.parser.HTMLParser):
  """Checks that tags nest, and keeps them, their attributes and the text."""

  def __init__(self):
    super().__init__()
    self.open, self.tags, self.text = [], [], ''

  def handle_starttag(self, tag, attributes):
    self.tags.append((tag, dict(attributes)))
    if tag not in VOID:
      self.open.append(tag)

  def handle_endtag(self, tag):
    assert self.open.pop() == tag

  def handle_startendtag(self, tag, attributes):
    self.tags.append((tag, dict(attributes)))

  def handle_data(self, data):
    self.text += data


def read(text):
  reader = Reader()
  reader.feed(text)
  reader.close()
  assert reader.open == []
  return reader


def made(pieces, **changes):
  one = page.Transcript('after', pieces, 1.0, 'finished')
  arguments = {
    'title': 'a run',
    'scores': [
      page.Score(
        'held out, greedy',
        page.Estimate(0.1, 0.05, 0.2, 200),
        page.Estimate(0.9, 0.85, 0.95, 100),
      )
    ],
    'facts': {'seed': '7', 'jax': '0.10.2'},
    'curves': PNG,
    'config': '{"seed": 7}',
    'pairs': [(page.Transcript('before', [], 0.0, 'max_tokens'), one)],
    'warnings': [],
  }
  return page.page(**(arguments | changes))


def tokens(text):
  """(class, tint, tooltip) of each token: the spans with a tooltip."""
  return [
    (attributes['class'], attributes['style'], attributes['title'])
    for tag, attributes in read(text).tags
    if tag == 'span' and 'title' in attributes
  ]


def test_tokens_are_colored_by_mask_and_advantage():
  pieces = [
    page.Piece('Q', False, 0.0, 9.0, 5),
    page.Piece('good', True, -0.25, 1.5, 6),
    page.Piece('bad', True, -1.0, -2.0, 7),
    page.Piece('even', True, -2.0, 0.0, 8),
    page.Piece('odd', True, -2.0, math.nan, 9),
  ]
  assert tokens(made(pieces)) == [
    ('given', '--t:0', 'id 5, not sampled'),
    ('up', '--t:0.75', 'id 6, logp -0.25, advantage +1.5'),
    ('down', '--t:1.00', 'id 7, logp -1, advantage -2'),
    ('even', '--t:0.00', 'id 8, logp -2, advantage +0'),
    ('broken', '--t:0', 'id 9, logp -2, advantage +nan'),
  ]


def test_no_advantage_at_all_is_no_tint():
  pieces = [page.Piece('a', True, -1.0, 0.0, 1)]
  assert tokens(made(pieces))[0][:2] == ('even', '--t:0.00')


def test_numbers_and_headings_are_there():
  text = read(made([page.Piece('a', True, -1.0, 1.0, 1)])).text
  for expected in (
    'a run',
    'held out, greedy',
    '0.100',
    '0.050 – 0.200, n = 200',
    '0.900',
    '+0.800',
    'seed',
    '0.10.2',
    '{"seed": 7}',
    'before',
    'reward 1, finished, 1 of 1 tokens sampled',
    'reward 0, max_tokens, 0 of 0 tokens sampled',
  ):
    assert expected in text


def test_everything_is_escaped():
  attack = '<script>alert("x")</script>\'\''
  pieces = [page.Piece(attack, True, -1.0, 1.0, 1)]
  text = made(
    pieces,
    title=attack,
    facts={attack: attack},
    config=attack,
    scores=[
      page.Score(attack, page.Estimate(0, 0, 1, 1), page.Estimate(1, 0, 1, 1))
    ],
    pairs=[(page.Transcript(attack, pieces, 0.0, attack),) * 2],
  )
  reader = read(text)
  assert 'script' not in {tag for tag, _ in reader.tags}
  assert '<script' not in text
  # Twice each: title, pairs' titles, statuses and tokens; the rest once.
  assert reader.text.count(attack) == 2 + 2 + 2 + 2 + 1 + 1 + 1 + 1


def test_nothing_is_loaded_from_anywhere():
  text = made([page.Piece('a', True, -1.0, 1.0, 1)])
  for mark in ('http', '//', 'url(', '@import', '<script', '<link'):
    assert mark not in text
  sources = [a['src'] for _, a in read(text).tags if 'src' in a]
  assert sources == [
    'data:image/png;base64,' + base64.b64encode(PNG).decode('ascii')
  ]


@pytest.mark.parametrize(
  'text, shown',
  [
    ('a b', 'a b'),
    ('a\n\n', 'a⏎\n⏎\n'),
    ('\tx', '⇥x'),
    ('', '∅'),
    ('\r\x00', '[U+000D][U+0000]'),
    ('\u200b\u202e\u00a0', '[U+200B][U+202E][U+00A0]'),
    ('\ud800', '[U+D800]'),
    ('<|im_end|>', '<|im_end|>'),
    ('\ufffdé中', '\ufffdé中'),
  ],
)
def test_what_has_no_ink_is_made_visible(text, shown):
  assert page.visible(text) == shown
  whole = made([page.Piece(text, False, 0.0, 0.0, 1)])
  assert shown in read(whole).text
  assert whole.encode('utf-8')


def test_transcript_of_an_episode():
  source = episode.Episode(
    task=episode.Task('a', 'go', {}),
    sample=0,
    tokens=np.array([3, 1, 2], np.int32),
    mask=np.array([False, True, True]),
    logp=np.array([0, -0.5, -0.25], np.float32),
    rewards=np.array([0, 0.25, 0.5], np.float32),
    turn=np.zeros(3, np.int32),
    status='finished',
  )
  advantage = np.array([0, 1, -1], np.float32)
  got = page.transcript('task a', source, advantage, 'abcd'.__getitem__)
  assert got == page.Transcript(
    'task a',
    [
      page.Piece('d', False, 0.0, 0.0, 3),
      page.Piece('b', True, -0.5, 1.0, 1),
      page.Piece('c', True, -0.25, -1.0, 2),
    ],
    0.75,
    'finished',
  )
  with pytest.raises(ValueError, match=r'shape \(2,\) for 3 tokens'):
    page.transcript('task a', source, advantage[:2], 'abcd'.__getitem__)


def test_curves_must_be_a_png():
  with pytest.raises(ValueError, match='expected the bytes of a PNG'):
    made([], curves=b'curves.png')


def test_warnings_are_told_in_order_or_that_there_are_none():
  told = read(made([], warnings=['first: <b>x</b>', 'second'])).text
  assert told.index('first: <b>x</b>') < told.index('second')
  assert 'None while it trained' not in told
  assert 'None while it trained' in read(made([])).text
