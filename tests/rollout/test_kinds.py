"""Kinds of tokens: those of the characters that a token adds to its action."""

import numpy as np
import pytest

from arl import episode, kinds
from arl.envs import tools
from arl.models import tokenizers
from arl.rollout import chat as chat_lib
from arl.rollout import kinds as kinds_lib

OTHER, FORMAT = kinds.OTHER, kinds.FORMAT
NAME, ARGUMENTS = kinds.NAME, kinds.ARGUMENTS
END = 99


def acted(*actions, gap=2):
  """An episode of actions, each (text, ids), with observations between."""
  tokens, mask, turn = [7], [False], [0]
  for index, (_, ids) in enumerate(actions):
    tokens += [*ids, *[7] * gap]
    mask += [True] * len(ids) + [False] * gap
    turn += [index] * (len(ids) + gap)
  return episode.Episode(
    task=episode.Task('t', 'do', {}),
    sample=0,
    tokens=np.array(tokens, np.int32),
    mask=np.array(mask),
    logp=np.zeros(len(tokens), np.float32),
    rewards=np.zeros(len(tokens), np.float32),
    turn=np.array(turn, np.int32),
    status=episode.FINISHED,
    exchanges=[
      episode.Exchange(text, episode.Turn('seen')) for text, _ in actions
    ],
  )


def of(one, pieces, parts):
  """Kinds by a tokenizer of these texts; END has none."""
  text = lambda ids: ''.join(pieces[i] for i in ids if i != END)
  return kinds_lib.of(one, text, parts)


def by_letter(text):
  """n for a name, a for arguments, anything else for format."""
  return [{'n': NAME, 'a': ARGUMENTS}.get(c, FORMAT) for c in text]


@pytest.mark.parametrize(
  'pieces, wanted',
  [
    (['n', 'n', 'a'], [NAME, NAME, ARGUMENTS]),
    (['nna', 'a'], [NAME, ARGUMENTS]),  # most of its characters
    (['naa', '-'], [ARGUMENTS, FORMAT]),
    (['na', 'an'], [NAME, ARGUMENTS]),  # the earlier one in a tie
    (['', 'n'], [FORMAT, NAME]),  # no character of its own
  ],
)
def test_a_token_has_the_kind_of_most_of_its_characters(pieces, wanted):
  ids = [*range(len(pieces)), END]
  one = acted((''.join(pieces), ids))
  made = of(one, pieces, by_letter)
  assert made.dtype == np.int32
  assert made.tolist() == [OTHER, *wanted, FORMAT, OTHER, OTHER]


def test_each_turn_is_read_by_itself():
  pieces = ['n', 'a']
  one = acted(('na', [0, 1, END]), ('an', [1, 0]))
  assert of(one, pieces, by_letter).tolist() == [
    OTHER, NAME, ARGUMENTS, FORMAT, OTHER, OTHER, ARGUMENTS, NAME, OTHER, OTHER,
  ]  # fmt: skip


def test_what_the_parts_do_not_cover_is_format():
  one = acted(('nn', [0, 0]))
  assert of(one, ['n'], lambda text: [NAME]).tolist()[1:3] == [NAME, FORMAT]


def test_an_episode_that_never_acted_has_no_kind():
  one = acted()
  assert of(one, [], by_letter).tolist() == [OTHER]


def test_a_character_of_two_tokens_moves_nothing():
  # Bytes of one character, as byte-level tokenizers cut it; alone, each of them
  # is spelled as a character of its own.
  pieces = ['é'.encode()[:1], 'é'.encode()[1:], b'n', b'a']
  decode = lambda ids: b''.join(pieces[i] for i in ids).decode(errors='replace')
  one = acted(('éna', [0, 1, 2, 3]))
  parts = lambda text: by_letter(text.replace('é', 'a'))
  made = kinds_lib.of(one, decode, parts)
  assert made.tolist()[1:5] == [ARGUMENTS, FORMAT, NAME, ARGUMENTS]


def test_a_space_that_a_lone_word_loses_moves_nothing():
  words = ['get', ' it', 'n']
  decode = lambda ids: ''.join(words[i] for i in ids).lstrip()
  one = acted(('get itn', [0, 1, 2]))
  parts = lambda text: [FORMAT] * 6 + [NAME] * 1
  assert kinds_lib.of(one, decode, parts).tolist()[1:4] == [
    FORMAT,
    FORMAT,
    NAME,
  ]


def test_the_tools_tell_their_parts():
  chat = chat_lib.chat(tokenizers.characters())
  env = tools.make()
  actions = ['get(abc.pin)', '=731', 'hm']
  one = acted(*((text, chat.action(text)) for text in actions))
  made = kinds_lib.of(one, chat.decode, env.parts)
  assert made[one.mask].tolist() == [
    *[NAME] * 3, FORMAT, *[ARGUMENTS] * 7, FORMAT, FORMAT,
    FORMAT, *[ARGUMENTS] * 3, FORMAT,
    *[OTHER] * 2, FORMAT,
  ]  # fmt: skip
  assert not made[~one.mask].any()


def test_what_was_forced_has_no_kind_but_shifts_none():
  one = acted(('naa', [0, 1, 1, END]))
  forced = np.arange(len(one.tokens)) == 1
  one = one._replace(mask=one.mask & ~forced, extras={'forced': forced})
  made = of(one, ['n', 'a'], by_letter)
  assert made.tolist() == [
    OTHER, OTHER, ARGUMENTS, ARGUMENTS, FORMAT, OTHER, OTHER,
  ]  # fmt: skip
