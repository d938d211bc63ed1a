"""Scores behind what came of a turn, and beliefs in the right answer."""

import numpy as np
import pytest

from arl import episode
from arl.envs import hinted, tools
from arl.models import tokenizers
from arl.rollout import chat as chat_lib
from arl.rollout import engine, hindsight, probing, scripted, strategies

CHAT = chat_lib.chat(tokenizers.characters())
LIMITS = strategies.Limits(
  max_turns=3, turn_tokens=24, context=400, response_tokens=100
)


class Scoring(scripted.ScriptedEngine):
  """Scores a token by how many came before it; keeps what it scores."""

  def __init__(self, script):
    super().__init__(script, vocab=128)
    self.scored = []

  def score(self, sequences, temperature):
    self.scored += [list(ids) for ids in sequences]
    return [-np.arange(len(ids), dtype=np.float32) / 1000 for ids in sequences]


def roll_out(strategy, *, samples=2, context=400):
  env = tools.make()
  tasks = [env.task('train', i) for i in range(2)]

  def script(request):
    """First a call of the tool, then a guess."""
    task = tasks[request.path[1]]
    state = env.reset(task)
    first = env.oracle(state)
    return CHAT.action(first if request.path[3] == 0 else '7')[:-1]

  speaker = Scoring(script)
  made = strategy(
    speaker,
    env,
    CHAT,
    tasks,
    strategies.Plan(
      samples, engine.Sampling(), LIMITS._replace(context=context), (0,)
    ),
  )
  return env, made, speaker


def test_a_turn_is_scored_behind_what_came_of_it():
  _, made, speaker = roll_out(hindsight.told_feedback)
  rows = iter(speaker.scored)
  for one in made:
    assert len(one.exchanges) >= 2
    begun = len(CHAT.opening(one.task))
    for turn in range(len(one.exchanges)):
      row = next(rows)
      told = hinted.told(one.task, hindsight.feedback(one, turn))
      opening = CHAT.opening(told)
      assert row[: len(opening)] == opening
      here = np.flatnonzero(one.mask & (one.turn == turn))
      rest = one.tokens[begun : here[-1] + 1].tolist()
      assert row[len(opening) :] == rest
      want = -(here + len(opening) - begun) / 1000
      got = one.extras['hindsight_logp'][here]
      np.testing.assert_allclose(got, want, rtol=1e-6)
  assert next(rows, None) is None


def test_feedback_tells_no_action():
  turn = episode.Turn('you said ADD 1 2: 3', 0.0, False)
  end = episode.Turn('', 1.0, True)
  _, made, _ = roll_out(hindsight.told_feedback)
  one = made[0]._replace(
    exchanges=(
      episode.Exchange('ADD 1 2', turn), episode.Exchange('3', end)
    )
  )  # fmt: skip
  earned = episode.total_reward(one)
  assert hindsight.feedback(one, 0) == f'you said : 3 {earned:g}'
  assert hindsight.feedback(one, 1) == f'{earned:g}'


def test_a_turn_without_room_has_its_own_scores():
  _, made, speaker = roll_out(hindsight.told_feedback)
  longest = max(len(row) for row in speaker.scored)
  _, made, _ = roll_out(hindsight.told_feedback, context=longest - 1)
  kept = [
    np.array_equal(one.extras['hindsight_logp'][here], one.logp[here])
    for one in made
    for turn in range(len(one.exchanges))
    for here in [one.mask & (one.turn == turn)]
  ]
  assert any(kept) and not all(kept)


def test_beliefs_are_of_the_answer_at_each_moment():
  env, made, speaker = roll_out(probing.beliefs)
  rows = iter(speaker.scored)
  for one in made:
    gold = CHAT.action(env.answer(one.task))
    known = []
    for turn in range(len(one.exchanges) + 1):
      row = next(rows)
      assert row[-len(gold) :] == gold
      if turn < len(one.exchanges):
        start = np.flatnonzero(one.mask & (one.turn == turn))[0]
        assert row[: -len(gold)] == one.tokens[:start].tolist()
      places = np.arange(len(row))[-len(gold) :]
      known.append(np.exp(-np.mean(places) / 1000))
    column = one.extras['process_rewards']
    ends = [
      np.flatnonzero(one.mask & (one.turn == turn))[-1]
      for turn in range(len(one.exchanges))
    ]
    np.testing.assert_allclose(column[ends], np.diff(known), atol=1e-6)
    assert np.count_nonzero(column) == len(ends)
    assert np.sum(column) == pytest.approx(known[-1] - known[0], abs=1e-6)


def test_an_environment_without_answers_is_refused():
  env = tools.make()._replace(answer=None)
  with pytest.raises(ValueError, match='no reference answers'):
    probing.beliefs(
      Scoring(lambda request: [5]),
      env,
      CHAT,
      [env.task('train', 0)],
      strategies.Plan(1, engine.Sampling(), LIMITS, (0,)),
    )
