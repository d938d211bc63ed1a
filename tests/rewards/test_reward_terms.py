"""Terms that a config adds to rewards."""

import numpy as np
import pytest

from arl import episode
from arl.rewards import shaping


def played(reward, actions, *, sample=0, row=0, tokens=4):
  """A row whose last three tokens were sampled; the last earned the reward."""
  mask = np.arange(tokens) > 0
  rewards = np.zeros(tokens, np.float32)
  rewards[-1] = reward
  return episode.Episode(
    task=episode.Task('t', 'go', {}),
    sample=sample,
    tokens=np.arange(tokens, dtype=np.int32),
    mask=mask,
    logp=np.zeros(tokens, np.float32),
    rewards=rewards,
    turn=np.zeros(tokens, np.int32),
    status=episode.FINISHED,
    exchanges=tuple(
      episode.Exchange(said, episode.Turn(answer)) for said, answer in actions
    ),
    row=row,
  )


def group(*episodes):
  return episode.Group(episodes[0].task, list(episodes))


def test_terms_are_added_on_the_last_token_of_a_trajectory():
  before = group(
    played(1, [('a', 'error: x'), ('b', '')]),
    played(0, [('a', '')], sample=1),
    played(0, [('a', '')], sample=1, row=1, tokens=3),
  )
  terms = {
    'turns': (0.1, shaping.turns()),
    'errors': (0.2, shaping.errors()),
    'overlong': (1.0, shaping.overlong(longest=4, buffer=2)),
  }
  (after,), means = shaping.add([before], terms, cap=0.5)
  # 2 turns, half of them wrong, 3 tokens: -0.2 - 0.1 - 0.5, cut at -0.5; and
  # 1 turn, 5 tokens: -0.1 - 1, cut too.
  totals = [e.rewards.tolist() for e in after.episodes]
  assert totals == [[0, 0, 0, 0.5], [0, 0, 0, 0], [0, 0, -0.5]]
  assert means['turns'] == pytest.approx(-0.15)
  assert means['errors'] == pytest.approx(-0.05)
  assert means['overlong'] == pytest.approx(-0.75)
  assert means['added'] == -0.5
  assert before.episodes[0].rewards[-1] == 1  # left as it was


def test_no_failure_exceeds_a_success():
  short = played(0, [('<think>x</think><answer>y</answer>', '')], tokens=2)
  long = played(1, [('x', '')], sample=1, tokens=9)
  terms = {
    'form': (100.0, shaping.think_answer()),
    'short': (100.0, shaping.shortest()),
  }
  (after,), _ = shaping.add([group(short, long)], terms, cap=0.5)
  failure, success = map(episode.total_reward, after.episodes)
  assert failure <= success


def test_nothing_to_add_changes_nothing():
  before = [group(played(1, [('a', '')]))]
  assert shaping.add(before, {}, cap=0.5) == (before, {})
  assert shaping.add([], {'t': (1.0, shaping.turns())}, cap=0.5) == ([], {})


@pytest.mark.parametrize('values', [[1.0, 2.0], [np.nan]])
def test_a_term_gives_each_a_number(values):
  terms = {'odd': (1.0, lambda played: np.array(values))}
  with pytest.raises(ValueError, match=r"reward.terms.odd: .* of task 't'"):
    shaping.add([group(played(1, []))], terms, cap=0.5)
