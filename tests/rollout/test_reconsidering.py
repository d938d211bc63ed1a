"""Which sampled tokens belong to phrases of reconsideration."""

import numpy as np
import pytest

from arl import episode
from arl.rollout import reconsidering


def said(*turns):
  """An episode of one id a character, a prompt and an observation a turn."""
  tokens, mask, turn = [], [], []
  for index, text in enumerate(turns):
    ids = [ord(c) for c in text]
    tokens += [ord('?'), *ids]
    mask += [False] + [True] * len(ids)
    turn += [max(index - 1, 0), *[index] * len(ids)]
  n = len(tokens)
  return episode.Episode(
    task=episode.Task('t', '?', {}),
    sample=0,
    tokens=np.array(tokens, np.int32),
    mask=np.array(mask),
    logp=np.zeros(n, np.float32),
    rewards=np.zeros(n, np.float32),
    turn=np.array(turn, np.int32),
    status=episode.FINISHED,
  )


def decode(ids):
  return ''.join(map(chr, ids))


def marked(phrases, *turns):
  """The text that is marked, with '_' for every other sampled token."""
  one = said(*turns)
  found = reconsidering.of(one, decode, reconsidering.phrases(phrases))
  assert found.dtype == bool and not np.any(found & ~one.mask)
  shown = np.where(found, one.tokens, ord('_'))[one.mask]
  return decode(shown)


@pytest.mark.parametrize(
  'phrases, text, want',
  [
    ('wait', 'so wait, 4', '___wait___'),
    ('wait|hm', 'hm wait', 'hm_wait'),
    ('let me check', 'Let me check it', 'Let me check___'),
    ('wait', 'awaits waiting', '______________'),
    ('get(', 'forget(a) get(b)', '__________get(__'),
    ('wait', 'wait wait', 'wait_wait'),
    ('.', 'a.b', '_._'),
  ],
)
def test_phrases_are_found_whole(phrases, text, want):
  assert marked(phrases, text) == want


def test_a_phrase_does_not_reach_over_turns():
  assert marked('wait', 'wa', 'it wait') == '_____wait'


def test_tokens_of_several_characters():
  pieces = {1: 'so w', 2: 'ai', 3: 't', 4: ' then'}
  one = said('abcd')._replace(tokens=np.array([0, 1, 2, 3, 4], np.int32))
  found = reconsidering.of(
    one, lambda ids: ''.join(pieces[i] for i in ids), ('wait',)
  )
  assert found.tolist() == [False, True, True, True, False]


def test_nothing_sampled_is_nothing_marked():
  one = said('')
  assert not np.any(reconsidering.of(one, decode, ('wait',)))


@pytest.mark.parametrize('text', ['', 'wait|', 'wait| |no'])
def test_empty_phrases(text):
  with pytest.raises(ValueError, match='none of them empty'):
    reconsidering.phrases(text)


def test_what_was_forced_is_read_and_not_marked():
  one = said('wait')
  forced = np.arange(len(one.tokens)) == 1
  one = one._replace(mask=one.mask & ~forced, extras={'forced': forced})
  found = reconsidering.of(one, decode, ('wait',))
  assert found.tolist() == [False, False, True, True, True]
