"""Strategies for evaluation alone: beams that differ, thoughts that end."""

import numpy as np
import pytest
import test_steering as steering

from arl import episode
from arl.envs import base
from arl.rollout import beams, costs, deer, diverse, engine, pieces, strategies

# --- Diverse beams ------------------------------------------------------------


class Table(steering.Speaker):
  """Samples a letter of a distribution, and then the end."""

  chance = {'a': 0.6, 'b': 0.3, 'c': 0.1}

  def __init__(self):
    super().__init__(lambda request: '')

  def generate(self, requests, sampling):
    letters, odds = [*self.chance], [*self.chance.values()]
    end, made = sampling.stop[0], []
    for request in requests:
      rng = np.random.default_rng(request.path)
      begun = request.tokens[-1] in steering.says('abc')
      at = rng.choice(3, p=odds)
      ids = [end] if begun else steering.says(letters[at])
      made.append(
        engine.Sample(
          np.array(ids, np.int32),
          np.array([0.0 if begun else np.log(odds[at])], np.float32),
          engine.STOP if begun else engine.LENGTH,
          np.zeros(1, np.int32),
        )
      )
    return made


def acts(made):
  return [[e.action for e in one.exchanges] for one in made]


def test_without_a_penalty_every_group_finds_the_likeliest():
  made = steering.roll_out(
    beams.search(2, 24, weight=0.0), Table(), samples=3, env=one_turn()
  )
  assert acts(made) == [['a']] * 3


def test_a_group_pays_for_what_earlier_ones_chose():
  # With beams of one token: a; then b, as log .6 - 1.5 < log .3; then c or so.
  made = steering.roll_out(
    beams.search(1, 48, weight=3.0), Table(), samples=3, env=one_turn()
  )
  assert acts(made) == [['a'], ['b'], ['c']]
  assert [one.sample for one in made] == [0, 1, 2]


def one_turn():
  env = steering.counted(1)
  return env._replace(
    task=lambda split, index: episode.Task(str(index), 'd', {})
  )


def test_beams_of_a_model_differ_more_and_have_no_log_probs():
  model = steering.embedded()
  of = lambda made: diverse.spread([g.episodes for g in episode.groups(made)])[
    'plan_distance'
  ]
  plain = steering.roll_out(beams.search(1, 3, weight=0.0), model, samples=3)
  made = steering.roll_out(beams.search(1, 3, weight=4.0), model, samples=3)
  assert of(made) >= of(plain)
  again = steering.roll_out(beams.search(1, 3, weight=4.0), model, samples=3)
  for one, other in zip(made, again, strict=True):
    np.testing.assert_array_equal(one.tokens, other.tokens)
    assert np.all(np.isnan(one.logp[one.mask]))
    assert one.status in episode.GRADED


def test_beams_refuse_what_they_cannot_see():
  env = steering.counted()
  plan = strategies.Plan(
    1, engine.Sampling(stop_text=('ab',)), steering.LIMITS, (5,)
  )
  with pytest.raises(ValueError, match='may be several tokens'):
    beams.four(Table(), env, steering.CHAT, [env.task(base.TRAIN, 0)], plan)
  with pytest.raises(ValueError, match='width 0'):
    beams.search(0, 1)


# --- DEER ---------------------------------------------------------------------

HOW = deer.Exit(turns=('b',), asks='c', tokens=2, most=40, closed='?')


class Thinker(steering.Speaker):
  """Thinks 'aab' for ever, then answers '.'; as sure of it as it is told."""

  def __init__(self, sure):
    super().__init__(lambda request: '')
    self.sure = sure

  def generate(self, requests, sampling):
    made = []
    for request in requests:
      text = steering.CHAT.decode(list(request.tokens))
      if sampling.temperature == 0:
        ids, logp = steering.says('.'), np.log(self.sure(text))
        ids = [*ids, sampling.stop[0]]
      elif '?' in text[2:]:
        ids, logp = [*steering.says('.'), sampling.stop[0]], -0.5
      else:
        ids, logp = steering.says('aab'), -0.5
      ids = ids[: request.max_tokens]
      ends = ids[-1] in sampling.stop or (
        sampling.stop_text and steering.CHAT.decode(ids).endswith('b')
      )
      made.append(
        engine.Sample(
          np.array(ids, np.int32),
          np.full(len(ids), logp, np.float32),
          engine.STOP if ends else engine.LENGTH,
          np.zeros(len(ids), np.int32),
        )
      )
    return made


def think(sure, **how):
  limits = steering.LIMITS._replace(turn_tokens=40, max_turns=1)
  env = one_turn()
  strategy = deer.early(HOW._replace(**how))
  plan = strategies.Plan(1, engine.Sampling(), limits, (5,))
  (one,) = strategy(
    Thinker(sure), env, steering.CHAT, [env.task(base.TRAIN, 0)], plan
  )
  return one


def test_a_thought_ends_where_the_answer_is_sure():
  one = think(lambda text: 0.99 if text.count('b') == 3 else 0.5)
  assert one.exchanges[0].action == 'aabaabaab?.'
  assert one.status == episode.FINISHED
  assert np.sum(one.extras['forced']) == 1
  assert np.sum(one.extras[pieces.DISCARDED]) == 3 * 2  # three trials
  told = costs.of(deer.at_95, [one])
  assert told['rollout/tokens'] == 9 + 2 + 6


def test_thresholds_of_0_and_1_are_always_and_never():
  always = think(lambda text: 0.01, least=0.0)
  assert always.exchanges[0].action == 'aab?.'
  never = think(lambda text: 1.0, least=1.0)
  assert '?' not in never.exchanges[0].action
  assert never.status == episode.MAX_TOKENS
  capped = think(lambda text: 1.0, least=1.0, most=6)
  assert capped.exchanges[0].action == 'aabaab?.'


def test_a_thought_without_turns_is_multi_turn():
  speaker = steering.Speaker(lambda request: 'a')
  strategy = deer.early(HOW._replace(turns=('d',)))
  # What never turns is asked for nothing.
  env = steering.counted()
  made = strategy(
    Whole(speaker), env, steering.CHAT, [env.task(base.TRAIN, 0)],
    strategies.Plan(2, engine.Sampling(), steering.LIMITS, (5,)),
  )  # fmt: skip
  assert acts(made) == [['a'] * 4] * 2
  assert not any(np.any(one.extras['forced']) for one in made)
  assert all(len(each) == 2 for each in speaker.asked)


class Whole:
  """An engine that finds no text to stop at."""

  def __init__(self, engine):
    self.engine = engine

  def generate(self, requests, sampling):
    return self.engine.generate(requests, sampling._replace(stop_text=()))


def test_what_deer_cannot_do_is_refused():
  with pytest.raises(ValueError, match='give texts'):
    deer.early(HOW._replace(turns=()))
  with pytest.raises(ValueError, match='set tokens'):
    deer.early(HOW._replace(tokens=0))
