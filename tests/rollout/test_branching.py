"""Branching rollouts: token-exact, counted, numbered, by their own keys."""

import json
import pathlib

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tiny as tiny_lib

from arl import episode
from arl.envs import base
from arl.rollout import (
  arpo,
  branching,
  chat,
  costs,
  engine,
  marks,
  scripted,
  strategies,
)

LIMITS = strategies.Limits(
  max_turns=3, turn_tokens=6, context=48, response_tokens=400
)
GOLDEN = pathlib.Path(__file__).parents[1] / 'golden' / 'worked_agentic.json'


def counted():
  """Three turns; the letters 'a' that were said decide, at the end."""

  def step(state, text):
    turn, said = state[0] + 1, state[1] + text.count('a')
    reward = float(said >= 2) if turn == 3 else 0.0
    return (turn, said), episode.Turn('d', reward, turn == 3)

  letters = tiny_lib.letters()
  return letters._replace(reset=lambda task: (0, 0), step=step)


class Speaker(scripted.ScriptedEngine):
  """Says what a script of a request's path says; keeps what it is asked."""

  def __init__(self, script, entropy=None):
    super().__init__(script, vocab=8)
    self.asked, self.entropy = [], entropy

  def generate(self, requests, sampling):
    self.asked.append(list(requests))
    made = super().generate(requests, sampling)
    if self.entropy is None:
      return made
    return [
      one._replace(entropy=np.full(len(one.tokens), self.entropy(request)))
      for one, request in zip(made, requests)
    ]


def says(text):
  return tiny_lib.tokenizer().encode(text)


def by_sample(request):
  """An even sample says a, an odd one b."""
  return says('ab'[request.path[2] % 2])


def roll_out(strategy, *, samples, script=by_sample, entropy=None, count=1):
  env, speaker = counted(), Speaker(script, entropy)
  made = strategy(
    speaker,
    env,
    chat.chat(tiny_lib.tokenizer(), observation_role='user'),
    [env.task(base.TRAIN, i) for i in range(count)],
    strategies.Plan(samples, engine.Sampling(), LIMITS, (5,)),
  )
  return made, speaker


def check(made, samples):
  """What holds of all rollouts that branch."""
  for group in episode.groups(made):
    members = group.episodes
    assert [one.sample for one in members] == list(range(samples))
    for one in members:
      assert one.status == episode.FINISHED
      assert len({*one.extras['tree'].tolist()}) == 1
    for one in members:
      for other in members:
        same = one.extras['tree'][0] == other.extras['tree'][0]
        n = min(len(one.tokens), len(other.tokens))
        shared = one.extras['node'][:n] == other.extras['node'][:n]
        if not same:
          on = one.mask[:n] & other.mask[:n]
          assert not np.any(shared & on)
        # What is one node is one stretch of ids, sampled once.
        else:
          np.testing.assert_array_equal(
            one.tokens[:n][shared], other.tokens[:n][shared]
          )
          np.testing.assert_array_equal(
            one.logp[:n][shared], other.logp[:n][shared]
          )


@hypothesis.given(
  st.sampled_from([(1, 4), (2, 4), (2, 6), (3, 6), (4, 4)]), st.integers(1, 3)
)
@hypothesis.settings(max_examples=10, deadline=None)
def test_trees_have_their_share_of_leaves(shape, count):
  roots, samples = shape
  made, speaker = roll_out(branching.tree(roots), samples=samples, count=count)
  check(made, samples)
  for group in episode.groups(made):
    trees = [int(one.extras['tree'][0]) for one in group.episodes]
    assert sorted(trees) == sorted([*range(roots)] * (samples // roots))
  paths = [request.path for each in speaker.asked for request in each]
  assert len(set(paths)) == len(paths)


def test_branches_cost_less_than_chains():
  made, speaker = roll_out(branching.tree(1), samples=8)
  plain, chains = roll_out(strategies.multi_turn, samples=8)
  asked = lambda one: sum(len(each) for each in one.asked)
  assert len(made) == len(plain) == 8
  assert 3 + 7 <= asked(speaker) < asked(chains) == 24
  # Two tokens a turn: the letter and what ends it.
  told = costs.of(branching.two_trees, made)
  assert told['rollout/tokens'] == 2 * asked(speaker)
  assert told['rollout/copied'] == 1 - asked(speaker) / 24


def test_answers_share_their_first_turn():
  made, speaker = roll_out(branching.answers(3), samples=6)
  check(made, 6)
  assert [int(one.extras['tree'][0]) for one in made] == [0, 1, 0, 0, 1, 1]
  # Two first turns, then two more turns of six.
  assert [len(each) for each in speaker.asked] == [2, 6, 6]
  copies = marks.of('copies', made)
  for one, number in zip(made, copies):
    assert set(number[one.mask & (one.turn == 0)]) == {3}
    assert set(number[one.mask & (one.turn > 0)]) == {1}


def test_a_first_turn_that_ends_everything_has_one_answer():
  env = counted()._replace(
    step=lambda state, text: (state, episode.Turn('', 1.0, True))
  )
  made = branching.answers(2)(
    Speaker(by_sample),
    env,
    chat.chat(tiny_lib.tokenizer(), observation_role='user'),
    [env.task(base.TRAIN, 0)],
    strategies.Plan(4, engine.Sampling(), LIMITS, (5,)),
  )
  assert [int(one.extras['tree'][0]) for one in made] == [0, 1]


def test_a_surprise_branches_and_what_is_left_begins_anew():
  # Turns after the first are as uncertain as can be, the first is certain.
  surprised = lambda request: float(np.log(8)) * (request.path[3] > 0)
  made, _ = roll_out(
    arpo.uncertain(2, base_rate=0.0, weight=1.0),
    samples=4,
    entropy=surprised,
  )
  check(made, 4)
  assert [int(one.extras['tree'][0]) for one in made] == [0, 1, 0, 1]
  made, _ = roll_out(
    arpo.uncertain(2, base_rate=0.0, weight=1.0),
    samples=4,
    entropy=lambda request: 0.5,
  )
  check(made, 4)
  assert [int(one.extras['tree'][0]) for one in made] == [0, 1, 2, 3]


def test_the_probability_of_a_branch_is_the_worked_one():
  worked = json.loads(GOLDEN.read_text())['arpo']
  for surprise, want in worked.items():
    got = arpo.branch_probability(float(surprise))
    assert got == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize(
  'strategy, samples, message',
  [
    (branching.tree(3), 4, '4 samples cannot be shared out by 3'),
    (branching.answers(3), 4, '4 samples cannot be shared out by 3'),
    (arpo.uncertain(5), 4, '5 chains of 4 samples'),
  ],
)
def test_samples_that_do_not_fit_are_refused(strategy, samples, message):
  with pytest.raises(ValueError, match=message):
    roll_out(strategy, samples=samples)


def test_an_engine_without_entropies_is_refused():
  with pytest.raises(ValueError, match='tells no entropies'):
    roll_out(arpo.uncertain(2), samples=4)


def test_a_turn_is_asked_once_whether_it_surprises():
  # Every second turn surprises for sure: one copy of each that took it, and no
  # more of it once it has ended.
  made, speaker = roll_out(
    arpo.uncertain(1, base_rate=0.0, weight=1.0),
    samples=3,
    entropy=lambda request: float(np.log(8)) * (request.path[3] == 1),
  )
  check(made, 3)
  copies = marks.of('copies', made)
  first = [set(c[one.mask & (one.turn == 0)]) for c, one in zip(copies, made)]
  assert first == [{3}] * 3
  # The chain's second turn; its copy's; that of the copy of the copy.
  assert [len(each) for each in speaker.asked] == [1, 1, 2, 2, 1]
