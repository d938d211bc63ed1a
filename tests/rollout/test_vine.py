"""Branches: token-exact, one batch a turn, and worth what they earn."""

import numpy as np
import pytest
import tiny as tiny_lib

from arl import episode
from arl.envs import base
from arl.rollout import chat, costs, engine, scripted, strategies, vine

LIMITS = strategies.Limits(
  max_turns=3, turn_tokens=6, context=48, response_tokens=400
)


def counted(*, broken=''):
  """Three turns; the sum of letters 'a' said decides, at the end."""

  def step(state, text):
    if broken and text.startswith(broken):
      raise OSError('lost')
    turn, said = state[0] + 1, state[1] + text.count('a')
    reward = float(said >= 2) if turn == 3 else 0.0
    return (turn, said), episode.Turn('d', reward, turn == 3)

  letters = tiny_lib.letters()
  return letters._replace(reset=lambda task: (0, 0), step=step)


class Counting(scripted.ScriptedEngine):
  """Says what a script of a request's path says; keeps what it is asked."""

  def __init__(self, script):
    super().__init__(script, vocab=8)
    self.asked = []

  def generate(self, requests, sampling):
    self.asked.append(list(requests))
    return super().generate(requests, sampling)


def says(text):
  return tiny_lib.tokenizer().encode(text)


def roll_out(strategy, script, *, samples=2, env=None, count=1):
  env = env or counted()
  speaker = Counting(script)
  made = strategy(
    speaker,
    env,
    chat.chat(tiny_lib.tokenizer(), observation_role='user'),
    [env.task(base.TRAIN, i) for i in range(count)],
    strategies.Plan(samples, engine.Sampling(), LIMITS, (5,)),
  )
  return made, speaker


def trunk(path):
  """Whether a request is of an episode and not of a branch."""
  return len(path) == 4


def script(request):
  """Episode 0 says a, a, b, the others b; every other branch says a."""
  path = request.path
  if trunk(path):
    return says('a' if path[2] == 0 and path[3] < 2 else 'b')
  return says('a' if path[4] % 2 == 0 else 'b')


def by_turn(one, column):
  """A column's value on each turn, which must be one."""
  found = [set(one.extras[column][one.turn == k].tolist()) for k in range(3)]
  assert all(len(each) == 1 for each in found)
  return [each.pop() for each in found]


def test_the_value_of_a_turn_is_what_branches_from_it_earn():
  made, _ = roll_out(vine.values(4), script)
  plain, _ = roll_out(strategies.multi_turn, script)
  for one, other in zip(made, plain):
    np.testing.assert_array_equal(one.tokens, other.tokens)
    np.testing.assert_array_equal(one.rewards, other.rewards)
  # Half of all branches say 'a' to the end. Episode 0 has two of them before
  # its last turn, so there all succeed; episode 1 has none and one turn left.
  assert by_turn(made[0], 'turn_value') == [0.5, 0.5, 1.0]
  assert by_turn(made[1], 'turn_value') == [0.5, 0.5, 0.0]


def test_branches_begin_with_the_ids_of_the_episode():
  made, speaker = roll_out(vine.values(2), script, samples=1)
  begun = [request for request in speaker.asked[3] if not trunk(request.path)]
  starts = {request.path[3]: request.tokens for request in begun}
  for turn, tokens in starts.items():
    n = int(np.flatnonzero(made[0].mask & (made[0].turn == turn))[0])
    assert list(tokens) == made[0].tokens[:n].tolist()


def test_all_branches_of_a_batch_advance_together_and_by_their_own_keys():
  _, speaker = roll_out(vine.values(3), script, samples=2, count=2)
  # Three turns of episodes, then three of branches.
  assert len(speaker.asked) == 6
  first = speaker.asked[3]
  # Of each task: the first state once, and of both samples two more.
  assert len(first) == 2 * (1 + 2 * 2) * 3
  paths = [r.path for each in speaker.asked for r in each]
  assert len(set(paths)) == len(paths)


def test_what_branches_sampled_is_counted_once():
  strategy = vine.values(3)
  made, speaker = roll_out(strategy, script, samples=2, count=2)
  told = costs.of(strategy, made)
  # Two tokens a turn: the letter and what ends it.
  assert told['rollout/tokens'] == 2 * sum(len(each) for each in speaker.asked)
  trained = sum(int(one.mask.sum()) for one in made)
  assert told['rollout/branches'] == told['rollout/tokens'] - trained


def test_labels_are_of_the_states_that_steps_lead_to():
  for strategy, want in (
    (vine.labels(4, vine.soft), [0.5, 1.0, 1.0]),
    (vine.labels(4, vine.hard), [1.0, 1.0, 1.0]),
  ):
    made, _ = roll_out(strategy, script)
    ends = [np.flatnonzero(made[0].mask & (made[0].turn == k))[-1]
            for k in range(3)]  # fmt: skip
    column = made[0].extras['process_rewards']
    np.testing.assert_array_equal(column[ends], want)
    assert not np.any(np.delete(column, ends))
  # Nothing is left to play after two of three turns without a letter.
  assert made[1].extras['process_rewards'].tolist()[-1] == 0.0


def test_an_episode_that_was_cut_off_is_labelled_as_it_ended():
  def longest(request):
    return says('bbbbbb') if trunk(request.path) else says('a')

  made, speaker = roll_out(vine.soft_labels, longest, samples=1)
  assert made[0].status == episode.MAX_TOKENS
  assert not np.any(made[0].extras['process_rewards'])
  assert len(speaker.asked) == 1


def test_branches_that_fail_do_not_count_unless_all_do():
  def one_fails(request):
    path = request.path
    return says('a' if trunk(path) or path[4] else 'c')

  made, _ = roll_out(
    vine.values(2), one_fails, samples=1, env=counted(broken='c')
  )
  assert by_turn(made[0], 'turn_value') == [1.0, 1.0, 1.0]

  def all_fail(request):
    return says('a' if trunk(request.path) else 'c')

  for strategy in (vine.values(2), vine.labels(2, vine.soft)):
    made, _ = roll_out(strategy, all_fail, samples=1, env=counted(broken='c'))
    assert made[0].status == episode.ENVIRONMENT_ERROR
    assert 'all branches from its turn' in made[0].error


def test_an_episode_without_a_grade_is_not_branched_from():
  made, speaker = roll_out(
    vine.three, lambda request: says('c'), samples=1, env=counted(broken='c')
  )
  assert made[0].status == episode.ENVIRONMENT_ERROR
  assert len(speaker.asked) == 1


@pytest.mark.parametrize(
  'strategy, column',
  [
    (vine.nine, 'turn_value'),
    (vine.three, 'turn_value'),
    (vine.hard_labels, 'process_rewards'),
    (vine.soft_labels, 'process_rewards'),
  ],
)
def test_what_a_strategy_gives(strategy, column):
  assert strategy.gives == {column}
