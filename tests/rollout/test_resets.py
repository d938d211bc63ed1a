"""Resets into a failure: what is shared, where, what is compared with what."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl import episode, methods, types
from arl.envs import keydoor, mistakes
from arl.methods import compose
from arl.models import tokenizers
from arl.rollout import chat as chat_lib
from arl.rollout import engine, pack, resets, scripted, strategies

ENV = keydoor.make(length=1, sides=2)
CHAT = chat_lib.chat(tokenizers.characters())
LIMITS = strategies.Limits(
  max_turns=5, turn_tokens=24, context=900, response_tokens=200
)
QUESTION = 'which action'


def player(wrong, answer='2'):
  """An engine that plays as the oracle, but for wrong(sample, turn).

  It says `answer` where it is asked for a mistake. What it does is a function
  of the request's own ids, replayed in the environment.
  """

  def script(request):
    text = CHAT.decode(request.tokens)
    if QUESTION in text:
      return CHAT.action(answer)[:-1]
    *_, place, sample, turn = request.path
    state = ENV.reset(ENV.task('train', place))
    for action in spoken(request.tokens):
      state, _ = ENV.step(state, action)
    said = 'take' if wrong(sample, turn) else ENV.oracle(state)
    return CHAT.action(said)[:-1]

  return scripted.ScriptedEngine(script, vocab=128)


def spoken(tokens):
  """The actions in a row: what stands before the stop ids of the policy."""
  made, begun = [], None
  opened = list(CHAT.reply('?'))
  tail = opened[opened.index(CHAT.tokenizer.encode('?')[0]) + 1 :]
  row, n = list(tokens), len(tail)
  for at in range(len(row)):
    if row[max(at - n, 0) : at] == tail:
      begun = at
    if begun is not None and row[at] in CHAT.stop:
      made.append(CHAT.decode(row[begun:at]))
      begun = None
  return made


def roll_out(strategy, wrong, *, samples=8, tasks=1, answer='2', limits=LIMITS):
  speaker = player(wrong, answer)
  made = strategy(
    speaker,
    ENV,
    CHAT,
    [ENV.task('train', i) for i in range(tasks)],
    strategies.Plan(samples, engine.Sampling(), limits, (3,)),
  )
  return made, speaker


def never(sample, turn):
  return False


def base_fails(at):
  """The first four samples are wrong from a turn on; those after are right."""
  return lambda sample, turn: sample < 4 and turn >= at


def begun(one):
  """The first turn that an episode sampled."""
  return int(one.turn[one.mask].min())


def test_the_script_reads_its_own_actions():
  made, _ = roll_out(strategies.multi_turn, never, samples=1)
  (one,) = made
  assert one.status == episode.FINISHED and episode.total_reward(one) == 1
  assert spoken(one.tokens) == [e.action for e in one.exchanges]


@pytest.mark.parametrize('at', [0, 2])
def test_other_ends_of_a_failure(at):
  made, speaker = roll_out(resets.srpo_oracle, base_fails(at), tasks=2)
  for group in episode.groups(made):
    members = group.episodes
    assert [one.sample for one in members] == [*range(8)]
    base, ends = members[:4], members[4:]
    assert [episode.total_reward(one) for one in members] == [0] * 4 + [1] * 4
    assert {int(x) for one in base for x in one.extras['tree']} == {0}
    assert {int(x) for one in ends for x in one.extras['tree']} == {1}
    for one in ends:
      assert begun(one) == at
      first = np.flatnonzero(one.mask)[0]
      kept = [
        o for o in base if np.array_equal(o.tokens[:first], one.tokens[:first])
      ]
      assert kept and not np.any(one.logp[:first])
      assert np.all(one.logp[one.mask] < 0)
      assert set(one.extras['rollout_version'][~one.mask]) == {-1}
  # Each end is sampled from the reset on, and nothing else is asked for.
  turns = [len(one.exchanges) for one in made]
  asked = sum(turns[:4] + turns[8:12]) + sum(n - at for n in turns[4:8] * 2)
  assert len(speaker.calls) == asked
  assert len({call.path for call in speaker.calls}) == asked


def test_the_policy_says_where_and_how_right_that_was_is_logged():
  for answer, turn, share in (('2', 1, 0), ('it was 3', 2, 1)):
    made, speaker = roll_out(resets.srpo, base_fails(2), answer=answer)
    assert {begun(one) for one in made[4:]} == {turn}
    asked_for = len(CHAT.action(answer))
    sampled = sum(int(one.mask.sum()) for one in made)
    assert resets.srpo.tells(made) == {
      'located': share, 'tokens': sampled + asked_for,
    }  # fmt: skip
    asked = [c for c in speaker.calls if QUESTION in CHAT.decode(c.tokens)]
    assert len(asked) == 1
    assert '- 3 take' in CHAT.decode(asked[0].tokens)


def test_what_names_no_turn_is_any_turn():
  drawn = {
    begun(roll_out(resets.srpo, base_fails(at), answer='9')[0][4])
    for at in (1, 2, 3)
  } | {begun(roll_out(resets.rrpo, base_fails(3), tasks=i)[0][-1])
    for i in range(1, 9)}  # fmt: skip
  assert len(drawn) > 1 and drawn <= set(range(5))


def test_random_turns_are_even():
  made, _ = roll_out(resets.rrpo, base_fails(0), tasks=40)
  turns = [begun(one) for one in made if one.sample == 4]
  counts = np.bincount(turns, minlength=5)
  assert np.all(counts > 1) and counts.sum() == 40
  told = resets.rrpo.tells(made)['located']
  assert told == pytest.approx(np.mean(np.array(turns) == 0), abs=1e-9)


def test_without_a_failure_the_rest_begin_anew():
  made, _ = roll_out(resets.srpo, never)
  assert len(made) == 8 and resets.srpo.tells(made).keys() == {'tokens'}
  assert {int(x) for one in made for x in one.extras['tree']} == {0}
  assert [begun(one) for one in made] == [0] * 8


def test_a_reset_has_the_budget_of_what_it_was_reset_from():
  made, _ = roll_out(
    resets.srpo_oracle,
    base_fails(2),
    limits=LIMITS._replace(response_tokens=22),
  )
  for one in made[4:]:
    assert one.status == episode.MAX_TOKENS and begun(one) == 2
    before = sum(len(CHAT.action(e.action)) for e in one.exchanges[:2])
    assert before + np.count_nonzero(one.mask) == 22


def test_samples_that_leave_no_base_are_refused():
  with pytest.raises(ValueError, match='4 of 4 samples come after a reset'):
    roll_out(resets.rrpo, never, samples=4)


# Credit of what they roll out.


@functools.cache
def compiled(name):
  """A method over DAPO, and its credit."""
  over = {} if name == 'grpo.dapo' else {'base': {'name': 'grpo.dapo'}}
  method = compose.method(methods.make(name, **over))
  return method, jax.jit(method.credit)


def credited(made, name):
  """The method, the columns, and its credit of episodes as a batch."""
  method, credit = compiled(name)
  batch = types.columns(
    pack.pad(
      made, rows=len(made), width=900, max_turns=5,
      extras=sorted(method.needs & {'tree'}),
    )
  )  # fmt: skip
  columns = {**batch, 'old_logp': batch['rollout_logp']}
  return method, columns, credit(columns)


def advantage(made, name):
  """[B], of each episode."""
  _, columns, credits = credited(made, name)
  column = np.array(credits['policy']['advantage'])
  return np.array([row[on][0] for row, on in zip(column, columns['mask'])])


def mixed(base, ends):
  """Wrong in the samples that are not named."""
  right = {*base, *ends}
  return lambda sample, turn: sample not in right and turn >= 1


@hypothesis.given(
  st.sets(st.integers(0, 3), max_size=3), st.sets(st.integers(4, 7))
)
@hypothesis.settings(max_examples=6, deadline=None)
def test_the_base_is_grpo_bit_for_bit(base, ends):
  made, _ = roll_out(resets.srpo_oracle, mixed(base, ends))
  got = advantage(made, 'resets.srpo')
  np.testing.assert_array_equal(got[:4], advantage(made[:4], 'grpo.dapo'))
  np.testing.assert_array_equal(got[4:], advantage(made[4:], 'grpo.dapo'))


def test_ends_that_are_equal_give_nothing():
  for ends in (set(), {4, 5, 6, 7}):
    made, _ = roll_out(resets.srpo_oracle, mixed({0}, ends))
    got = advantage(made, 'resets.rrpo')
    assert np.all(got[4:] == 0) and np.all(got[:4] != 0)


def test_before_the_first_turn_it_is_a_group_of_grpo():
  wrong = lambda sample, turn: sample not in {5, 6}
  made, _ = roll_out(resets.srpo_oracle, wrong)
  assert [begun(one) for one in made[4:]] == [0] * 4
  fresh, _ = roll_out(
    strategies.multi_turn, lambda s, turn: wrong(s + 4, turn), samples=4
  )
  for one, other in zip(made[4:], fresh):
    np.testing.assert_array_equal(one.tokens, other.tokens)
    np.testing.assert_array_equal(one.mask, other.mask)
  got = advantage(made, 'resets.rrpo')[4:]
  np.testing.assert_array_equal(got, advantage(fresh, 'grpo.dapo'))


def test_what_lies_before_a_reset_has_no_gradient():
  made, _ = roll_out(resets.srpo_oracle, mixed({0}, {5}))
  method, columns, credits = credited(made, 'resets.rrpo')
  weights = jax.jit(method.weigh)(columns, credits)

  def loss(logp):
    return method.loss({**columns, 'logp': logp}, credits, weights)[0]

  gradient = jax.jit(jax.grad(loss))(jnp.asarray(columns['rollout_logp']))
  for one, row in zip(made, np.asarray(gradient)):
    n = len(one.tokens)
    assert not np.any(row[:n][~one.mask]) and not np.any(row[n:])
    assert np.all(row[:n][one.mask] != 0)
  assert begun(made[4]) == 2  # taking at turn 1 is right


def test_what_is_asked_is_what_the_oracle_answers():
  made, _ = roll_out(strategies.multi_turn, base_fails(2), samples=1)
  states = [ENV.reset(made[0].task)]
  for exchange in made[0].exchanges:
    states.append(ENV.step(states[-1], exchange.action)[0])
  assert mistakes.first(ENV, states, made[0].exchanges) == 2
