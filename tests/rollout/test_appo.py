"""Branches inside turns: where, token-exact, numbered, within the budgets."""

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
import tiny as tiny_lib
from hypothesis.extra import numpy as arrays

from arl import episode
from arl.envs import base
from arl.models import transformer
from arl.rollout import (
  appo,
  branching,
  chat,
  engine,
  inside,
  local,
  marks,
  scripted,
  strategies,
)

LIMITS = strategies.Limits(
  max_turns=2, turn_tokens=6, context=48, response_tokens=400
)
CHAT = chat.chat(tiny_lib.tokenizer(), observation_role='user')
# A chain says 'abcd' twice, with the stop id five tokens a turn. Its third
# token in the first turn, and its second in the other, are the uncertain ones,
# after which the policy has moved.
UNCERTAIN = {2: 2.0, 6: 1.5}


def says(text):
  return tiny_lib.tokenizer().encode(text)


def two_turns():
  """Rewards half an 'a' a turn, as `tiny.letters`."""
  return tiny_lib.letters()


class Chains(scripted.ScriptedEngine):
  """Goes on with 'abcd' from where a turn is; entropies by place."""

  def __init__(self, entropy=True, later='abcd'):
    super().__init__(self.say, vocab=8)
    self.entropy, self.later, self.asked = entropy, later, []

  def say(self, request):
    turn, ids = request.path[3], list(request.tokens)
    opening = len(says('a?'))
    begun = len(ids) - opening - turn * 6 if turn < 2 else 0
    self.asked.append((request.path[2], turn, begun, request.max_tokens))
    said = 'abcd' if request.path[2] < 2 else self.later
    return says(said)[begun:]

  def _answer(self, request, stop):
    made = super()._answer(request, stop)
    if not self.entropy:
      return made
    _, turn, begun, _ = self.asked[-1]
    places = begun + np.arange(len(made.tokens)) + 5 * turn
    told = [UNCERTAIN.get(int(i), 0.1) for i in places]
    return made._replace(entropy=np.array(told, np.float32))


class Reference(scripted.ScriptedEngine):
  """Finds what follows the uncertain tokens unlikely."""

  def __init__(self):
    super().__init__(lambda request: [], vocab=8)

  def score(self, sequences, temperature):
    made = super().score(sequences, temperature)
    opening = len(says('a?'))
    for one in made:
      for place in (3, 7):
        one[opening + place + place // 5] -= 3.0
    return made


def roll_out(strategy, *, samples=6, speaker=None, teacher=None, count=1,
             limits=LIMITS):  # fmt: skip
  env, speaker = two_turns(), speaker or Chains()
  made = strategy(
    speaker,
    env,
    CHAT,
    [env.task(base.TRAIN, i) for i in range(count)],
    strategies.Plan(samples, engine.Sampling(), limits, (5,)),
    teacher=teacher,
  )
  return made, speaker


def sampled(one):
  """The places of its sampled tokens."""
  return np.flatnonzero(one.mask)


def left(one, other):
  """How many sampled tokens two have as one node."""
  n = min(len(one.tokens), len(other.tokens))
  same = one.extras['node'][:n] == other.extras['node'][:n]
  return int(np.sum(same & one.mask[:n] & other.mask[:n]))


def test_branches_begin_where_it_was_decided():
  strategy = appo.deciding(2, width=1)
  made, speaker = roll_out(strategy, teacher=Reference())
  assert [one.sample for one in made] == [0, 1, 2, 3, 4, 5]
  assert [int(one.extras['tree'][0]) for one in made] == [0, 1, 0, 0, 1, 1]
  for chain, branches in ((made[0], made[2:4]), (made[1], made[4:6])):
    assert [left(chain, one) for one in branches] == [2, 6]
    for one in branches:
      assert one.status == episode.FINISHED
      at = sampled(one)[left(chain, one)]
      np.testing.assert_array_equal(one.tokens[:at], chain.tokens[:at])
      np.testing.assert_array_equal(one.logp[:at], chain.logp[:at])
      assert len(one.exchanges) == 2
      for turn, exchange in enumerate(one.exchanges):
        ids = one.tokens[one.mask & (one.turn == turn)]
        assert CHAT.decode(ids.tolist()) == exchange.action == 'abcd'
  # The first went on with 2 tokens, the other in the second turn with 1.
  branches = [asked for asked in speaker.asked if asked[2]]
  assert [asked[1:] for asked in branches] == [(0, 2, 4), (1, 1, 5)] * 2


def test_a_branch_may_end_in_another_way():
  speaker = Chains(later='bb')
  made, _ = roll_out(appo.deciding(2, width=1), speaker=speaker,
                     teacher=Reference())  # fmt: skip
  assert [e.action for e in made[2].exchanges] == ['ab', 'bb']
  assert [e.action for e in made[3].exchanges] == ['abcd', 'ab']
  totals = [episode.total_reward(one) for one in made]
  assert totals == [1, 1, 0.5, 1, 0.5, 1]


def test_nodes_are_what_several_have():
  made, _ = roll_out(appo.deciding(2, width=1), teacher=Reference())
  copies = marks.of('copies', made)
  chain = copies[0][made[0].mask]
  assert chain.tolist() == [3] * 2 + [2] * 4 + [1] * 4
  assert copies[2][made[2].mask].tolist() == [3] * 2 + [1] * 8
  assert copies[3][made[3].mask].tolist() == [3] * 2 + [2] * 4 + [1] * 4
  total = sum(len(np.unique(one.extras['node'][one.mask])) for one in made)
  assert total == 2 * (3 + 2 + 3)
  told = appo.two.tells(made)
  assert told['tokens'] == 2 * (10 + 8 + 4)


def test_without_a_reference_any_place_is_as_good():
  places = set()
  for count in range(1, 9):
    made, _ = roll_out(appo.two, count=count)
    for group in episode.groups(made):
      one = group.episodes
      places |= {left(one[0], x) for x in one[2:4]}
  assert len(places) > 5 and max(places) < 8  # not in the last fifth


def test_the_budget_of_a_turn_counts_what_it_has():
  speaker = Chains(later='abcdabcd')
  made, _ = roll_out(appo.deciding(2, width=1), speaker=speaker,
                     teacher=Reference())  # fmt: skip
  for one in made[2:]:
    assert one.status == episode.MAX_TOKENS
    last = one.turn[one.mask].max()
    assert np.sum(one.mask & (one.turn == last)) == 6


def test_what_cannot_be_is_refused():
  with pytest.raises(ValueError, match='5 samples cannot be shared out by 2'):
    roll_out(appo.two, samples=5)
  with pytest.raises(ValueError, match='tells no entropies'):
    roll_out(appo.two, speaker=Chains(entropy=False))


def test_a_chain_that_broke_has_no_branches():
  env = two_turns()
  broken = lambda state, text: (_ for _ in ()).throw(OSError('lost'))
  made = appo.two(
    Chains(),
    env._replace(step=broken),
    CHAT,
    [env.task(base.TRAIN, 0)],
    strategies.Plan(6, engine.Sampling(), LIMITS, (5,)),
  )
  assert len(made) == 2 and not any(map(episode.graded, made))


def test_a_model_continues_inside_its_turns():
  """Log-probs of a branch are those of its whole row."""
  model = transformer.make(tiny_lib.size())
  params = jax.tree.map(lambda x: 4 * x, model.init(jax.random.key(3)))
  other = jax.tree.map(lambda x: 0.5 * x, params)
  speaker, reference = (
    local.LocalEngine(model, each, slots=16, context=32, seed=1)
    for each in (params, other)
  )
  limits = LIMITS._replace(context=32)
  made, _ = roll_out(
    appo.two, samples=8, speaker=speaker, teacher=reference, count=3,
    limits=limits,
  )  # fmt: skip
  assert len(made) == 24
  scores = speaker.score([one.tokens.tolist() for one in made], 1.0)
  for one, score in zip(made, scores):
    np.testing.assert_allclose(
      one.logp, np.where(one.mask, score, 0), rtol=0, atol=1e-4
    )
  inner = [
    left(chain, one) in np.flatnonzero(np.diff(chain.turn[chain.mask])) + 1
    for group in episode.groups(made)
    for chain in group.episodes[:2]
    for one in group.episodes[2:]
    if left(chain, one) > 0
  ]
  assert inner and not all(inner)


# Where to branch.

numbers = arrays.arrays(
  np.float64, st.integers(1, 40), elements=st.floats(-5, 0, width=32)
)


@hypothesis.given(numbers, st.integers(1, 40))
def test_gains_are_means_of_what_follows(logp, width):
  ref = logp[::-1]
  got = appo.gains(logp, ref, width)
  for t in range(len(logp)):
    ahead = (logp - ref)[t + 1 : t + 1 + width]
    want = np.mean(ahead) if len(ahead) else 0.0
    assert got[t] == pytest.approx(want, abs=1e-9)


@hypothesis.given(numbers)
def test_scores_have_no_unit(x):
  y = np.sin(np.arange(len(x)))
  got = appo.scores(x, y)
  np.testing.assert_allclose(appo.scores(3 * x + 1, 2 * y - 5), got, atol=1e-5)
  assert not np.any(appo.scores(np.full(len(x), 2.0), y))
  assert not np.any(appo.scores(x, np.full(len(x), 2.0)))


def test_scores_by_hand():
  entropy, gain = (
    np.array([0.0, 2.0, 1.0, 1.0]),
    np.array([1.0, 3.0, -2.0, 2.0]),
  )
  z = lambda v: (v - v.mean()) / v.std()
  want = z(entropy) * np.maximum(z(gain), 0)
  np.testing.assert_allclose(appo.scores(entropy, gain), want)
  rng = np.random.default_rng(0)
  assert appo.best(want, 1, rng, last=0.0).tolist() == [1]
  assert set(appo.best(want, 9, rng).tolist()) == {0, 1, 2, 3}
  assert 9 not in appo.best(np.arange(10.0), 8, rng)


def test_equal_scores_are_drawn_evenly():
  rng = np.random.default_rng(0)
  drawn = [int(i) for _ in range(500) for i in appo.best(np.zeros(10), 1, rng)]
  counts = np.bincount(drawn, minlength=8)
  assert len(counts) == 8 and counts.min() > 35


def test_nodes_of_branches_of_one_place_differ_after_it():
  row = strategies.Live(two_turns().task(base.TRAIN, 0), 0, ())
  row.observe([1, 2])
  leaf = branching.Leaf(row, 0, [])
  leaf.before = [row.copy(())]
  row.take(engine.Sample(np.array([3, 4, 5]), np.zeros(3), engine.STOP,
                         np.zeros(3, int)))  # fmt: skip
  one = branching.Grown(0)
  one.leaves.append(leaf)
  root = inside.Offshoot(leaf)
  made = [root, *(inside.branch(one, root, 3) for _ in range(2))]
  for each in made[1:]:
    assert each.begun == 1 and each.leaf.row.tokens == [1, 2, 3]
    each.leaf.row.observe([6])
  found = [node.tolist() for node in inside.nodes(made)]
  assert found[0] == [0, 0, 0, 1, 1]
  assert [node[:3] for node in found] == [[0] * 3] * 3
  assert len({found[0][3], found[1][3], found[2][3]}) == 3
