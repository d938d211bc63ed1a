"""Strategies that steer a policy: token-exact, counted, by their own keys."""

import itertools

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tiny as tiny_lib

from arl import episode
from arl.envs import base
from arl.rollout import (
  chat,
  costs,
  distances,
  diverse,
  engine,
  local,
  pieces,
  scripted,
  selective,
  strategies,
  t2po,
  thoughts,
)

LIMITS = strategies.Limits(
  max_turns=4, turn_tokens=6, context=64, response_tokens=400
)
CHAT = chat.chat(tiny_lib.tokenizer(), observation_role='user')


def counted(turns=4):
  """As many turns; the letters 'a' that were said decide, at the end."""

  def step(state, text):
    turn, said = state[0] + 1, state[1] + text.count('a')
    reward = float(said >= 2) if turn == turns else 0.0
    return (turn, said), episode.Turn('d', reward, turn == turns)

  letters = tiny_lib.letters()
  return letters._replace(reset=lambda task: (0, 0), step=step)


class Speaker(scripted.ScriptedEngine):
  """Says what a script of a request says, as sure as another says."""

  def __init__(self, script, entropy=lambda request: 0.5):
    super().__init__(lambda request: says(script(request)), vocab=8)
    self.entropy, self.asked = entropy, []

  def generate(self, requests, sampling):
    self.asked.append(list(requests))
    made = super().generate(requests, sampling)
    if not sampling.entropy:
      return made
    return [
      one._replace(
        entropy=np.full(len(one.tokens), self.entropy(request), np.float32)
      )
      for one, request in zip(made, requests)
    ]


def says(text):
  return tiny_lib.tokenizer().encode(text)


def roll_out(strategy, speaker, *, samples=2, count=1, env=None, **told):
  env = env or counted()
  return strategy(
    speaker,
    env,
    CHAT,
    [env.task(base.TRAIN, i) for i in range(count)],
    strategies.Plan(samples, engine.Sampling(), LIMITS, (5,)),
    **told,
  )


def embedded(tiny_size=None):
  """A tiny model's engine and its environment."""
  shape = tiny_lib.size()._replace(context=64)
  made = tiny_lib.transformer.make(shape)
  params = made.init(tiny_lib.jax.random.key(1))
  return local.LocalEngine(made, params, slots=8, context=64, seed=3)


@pytest.fixture(scope='module')
def model():
  return embedded()


def scored(model, one):
  """The log-prob of each token by itself, [n]."""
  return model.score([one.tokens.tolist()], 1.0)[0]


# --- T2PO ---------------------------------------------------------------------


def tries(request):
  """Which try of a turn a request is, and the turn."""
  (number,) = request.path[4:] or (LIMITS.context,)
  return request.path[3], number - LIMITS.context


def test_a_turn_as_uncertain_as_the_last_is_sampled_again():
  # The first try of turn 1 is as uncertain as turn 0; its second is not.
  entropy = {(0, 0): 1.0, (1, 0): 1.1, (1, 1): 2.0, (2, 0): 2.0, (3, 0): 1.9,
             (3, 1): 2.2, (3, 2): 2.1}  # fmt: skip
  speaker = Speaker(
    lambda request: 'abc'[tries(request)[1]],
    lambda request: entropy[tries(request)],
  )
  (one,) = roll_out(t2po.turns, speaker, samples=1)
  assert [e.action for e in one.exchanges] == ['a', 'b', 'a', 'c']
  asked = [tries(request) for each in speaker.asked for request in each]
  # Exactly as uncertain is no reason, and two tries more are the most.
  assert asked == list(entropy)
  thrown = one.extras[pieces.DISCARDED]
  ends = [np.flatnonzero(one.mask & (one.turn == t))[-1] for t in range(4)]
  assert thrown[ends].tolist() == [0, 2, 0, 4] and thrown.sum() == 6
  told = costs.of(t2po.turns, [one])
  assert told == {
    'rollout/tokens': 8 + 6,
    'rollout/discarded': 6,
    'rollout/resample_frac': 0.5,
    'rollout/forced_frac': 0,
  }


def test_without_a_reason_t2po_is_multi_turn(model):
  never = t2po.controlled(t2po.Turns(eta=0.0))
  ours = roll_out(never, model, count=2)
  plain = roll_out(strategies.multi_turn, model, count=2)
  for one, other in zip(ours, plain, strict=True):
    np.testing.assert_array_equal(one.tokens, other.tokens)
    np.testing.assert_array_equal(one.logp, other.logp)


def test_what_is_played_keeps_the_log_prob_that_it_was_sampled_with(model):
  made = roll_out(t2po.controlled(t2po.Turns(eta=5.0)), model, count=3)
  told = costs.of(t2po.turns, made)
  assert told['rollout/resample_frac'] > 0.3 and told['rollout/discarded'] > 0
  for one in made:
    np.testing.assert_allclose(
      one.logp[one.mask], scored(model, one)[one.mask], atol=1e-5
    )
  again = roll_out(t2po.controlled(t2po.Turns(eta=5.0)), model, count=3)
  for one, other in zip(made, again, strict=True):
    np.testing.assert_array_equal(one.tokens, other.tokens)


def test_an_engine_without_entropies_is_refused():
  mute = scripted.ScriptedEngine(lambda request: says('a'), vocab=8)
  with pytest.raises(ValueError, match='tells no entropies'):
    roll_out(t2po.turns, mute)


@pytest.mark.parametrize(
  'make',
  [
    lambda: t2po.controlled(t2po.Turns(eta=-1.0)),
    lambda: selective.cut(0),
    lambda: diverse.deduped(least=2.0),
  ],
)
def test_numbers_out_of_range_are_refused(make):
  with pytest.raises(ValueError, match='set|look'):
    make()


# --- Thoughts -----------------------------------------------------------------

STOP = thoughts.Stop(window=2, threshold=0.1, most=9, opened='b', closed='c')


def thinking(speaker, stop=STOP):
  return roll_out(t2po.controlled(t2po.ONCE, stop), speaker, samples=1)


def test_a_thought_whose_uncertainty_rests_is_ended():
  # It thinks for ever, always as sure: after two windows it is told to end.
  speaker = Speaker(lambda request: 'bbbbbb')
  (one, *_) = thinking(speaker)
  assert one.exchanges[0].action == 'bbbbcb'
  here = (one.turn == 0) & (one.mask | one.extras['forced'])
  forced = one.extras['forced'][here]
  assert forced.tolist() == [False] * 4 + [True, False]
  assert not np.any(one.mask & one.extras['forced'])
  assert set(one.extras['rollout_version'][one.extras['forced']]) == {-1}


def test_a_thought_that_moves_goes_on_to_the_cap():
  moving = lambda request: float(len(request.tokens))
  speaker = Speaker(lambda request: 'bbbbbb', moving)
  (capped, *_) = thinking(speaker, STOP._replace(most=4))
  assert capped.exchanges[0].action == 'bbbbcb'
  (free, *_) = thinking(speaker)
  assert free.exchanges[0].action == 'bbbbbb'


@pytest.mark.parametrize('said', ['aaaaaa', 'bcaaaa'])
def test_what_is_no_open_thought_is_left_alone(said):
  speaker = Speaker(lambda request: said[max(len(request.tokens) - 2, 0) :])
  (one, *_) = thinking(speaker)
  assert one.exchanges[0].action == said
  assert not np.any(one.extras['forced'])


def test_slices_keep_exact_log_probs(model):
  made = roll_out(t2po.controlled(t2po.ONCE, STOP), model, count=4)
  assert sum(np.sum(one.extras['forced']) for one in made) > 0
  for one in made:
    np.testing.assert_allclose(
      one.logp[one.mask], scored(model, one)[one.mask], atol=1e-5
    )


# --- Selective rollouts -------------------------------------------------------


@hypothesis.given(st.lists(st.text('ab', max_size=6), min_size=2, max_size=4))
@hypothesis.settings(max_examples=60, deadline=None)
def test_distances_by_their_recursion(texts):
  def slow(left, right):
    if not left or not right:
      return len(left) + len(right)
    swap = slow(left[1:], right[1:]) + (left[0] != right[0])
    return min(swap, slow(left[1:], right) + 1, slow(left, right[1:]) + 1)

  pairs = list(itertools.combinations(texts, 2))
  want = [slow(x, y) / max(len(x), len(y), 1) for x, y in pairs]
  assert distances.pairwise(texts) == pytest.approx(np.mean(want))


def test_a_group_that_does_the_same_is_dropped():
  # Both of task 0 say a; those of task 1 differ.
  speaker = Speaker(
    lambda request: 'a' if request.path[1] == 0 else 'ab'[request.path[2]]
  )
  made = roll_out(selective.two, speaker, count=2)
  assert [one.status for one in made] == ['dropped'] * 2 + ['finished'] * 2
  assert [len(one.exchanges) for one in made] == [2, 2, 4, 4]
  assert [len(each) for each in speaker.asked] == [4, 4, 2, 2]
  assert costs.of(selective.two, made) == {
    'rollout/tokens': 8 + 16,
    'rollout/dropped': 8,
    'rollout/dropped_frac': 0.5,
  }


def test_shorter_episodes_are_never_cut():
  speaker = Speaker(lambda request: 'a')
  made = roll_out(selective.four, speaker)
  assert [one.status for one in made] == ['finished'] * 2
  # One that ended early differs from one that goes on.
  assert not selective.alike([['a'], ['a', 'a']], 2)
  assert selective.alike([['a', 'a'], ['a', 'a']], 2)


# --- Plans --------------------------------------------------------------------


def test_a_plan_is_not_said_twice():
  said = {0: 'aaaa', 1: 'bbbb', 2: 'cccc'}
  speaker = Speaker(lambda request: said[tries(request)[1]])
  made = roll_out(diverse.plans, speaker, samples=4)
  plans = [one.exchanges[0].action for one in made]
  # The fourth has had its tries, and plays what it said last.
  assert plans == ['aaaa', 'bbbb', 'cccc', 'cccc']
  thrown = [int(one.extras[pieces.DISCARDED].sum()) for one in made]
  assert thrown == [0, 5, 10, 10]
  told = costs.of(diverse.plans, made)
  assert told['rollout/plan_distance'] == pytest.approx(5 / 6)
  # Of two sequences of four actions one differs.
  assert told['rollout/distance'] == pytest.approx(5 / 6 / 4)
  assert told['rollout/outcomes'] == 1


def test_plans_that_differ_are_multi_turn(model):
  ours = roll_out(diverse.deduped(least=0.0), model, count=2)
  plain = roll_out(strategies.multi_turn, model, count=2)
  for one, other in zip(ours, plain, strict=True):
    np.testing.assert_array_equal(one.tokens, other.tokens)


def test_plans_keep_exact_log_probs_and_differ_more(model):
  plain = roll_out(strategies.multi_turn, model, samples=6, count=3)
  made = roll_out(diverse.deduped(least=0.7), model, samples=6, count=3)
  of = lambda each: diverse.spread([g.episodes for g in episode.groups(each)])[
    'plan_distance'
  ]
  assert of(made) > of(plain)
  for one in made:
    np.testing.assert_allclose(
      one.logp[one.mask], scored(model, one)[one.mask], atol=1e-5
    )
