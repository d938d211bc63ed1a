"""Multi-turn episodes: columns, budgets and what ends an episode."""

import math
import re

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from arl import episode
from arl.envs import base
from arl.rollout import chat, engine, scripted, strategies

STOP, ASKED, SEEN, SAID = 1, 5, 6, 7
LIMITS = strategies.Limits(
  max_turns=3, turn_tokens=8, context=64, response_tokens=400
)

# A chat in which texts are as long as their ids and nothing is encoded.
PLAIN = chat.Chat(
  opening=lambda task: [ASKED] * len(task.prompt),
  reply=lambda text: [SEEN] * len(text),
  action=lambda text: [SAID] * len(text) + [STOP],
  decode=lambda ids: 'x' * sum(i != STOP for i in ids),
  pieces=lambda ids: [str(i) for i in ids],
  stop=(STOP,),
)


def task(name='t', prompt='ask'):
  return episode.Task(name, prompt, {})


def environment(step, reset=lambda task: 0):
  """An environment whose state counts its actions."""
  return base.Env(
    task=lambda split, index: task(str(index)),
    reset=reset,
    step=lambda state, text: (state + 1, step(state, text)),
    oracle=lambda state: '',
    noisy=lambda state, rng: '',
  )


def telling(*turns):
  return environment(lambda state, text: turns[state])


def said(*lengths):
  """An engine that says as many ids in each turn, and the stop id."""
  return scripted.ScriptedEngine(lambda r: [SAID] * lengths[r.path[-1]], 9)


def roll_out(speaker, env, tasks=None, *, samples=1, limits=LIMITS):
  return strategies.multi_turn(
    speaker,
    env,
    PLAIN,
    tasks or [task()],
    strategies.Plan(
      samples, engine.Sampling(stop=(99,)), limits, (4, 2)
    ),  # the chat's is used
  )


class Spelling(scripted.ScriptedEngine):
  """Ends its samples by a text: no stop id is among them."""

  def generate(self, requests, sampling):
    given = sampling._replace(stop=(), stop_text=())
    made = super().generate(requests, given)
    return [one._replace(finish=engine.STOP) for one in made]


def test_an_action_that_a_text_ends_is_closed_by_the_chat():
  env = telling(episode.Turn('ab'), episode.Turn('', 1, done=True))
  speaker = Spelling(lambda r: [SAID] * 2, 9)
  sampling = engine.Sampling(stop_text=('xx',))
  (result,) = strategies.multi_turn(
    speaker,
    env,
    PLAIN,
    [task()],
    strategies.Plan(1, sampling, LIMITS, (4, 2)),
  )
  assert result.tokens.tolist() == [5, 5, 5, 7, 7, STOP, 6, 6, 7, 7]
  assert result.mask.tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 1, 1]
  assert result.rewards.tolist() == [0] * 9 + [1]
  assert [e.action for e in result.exchanges] == ['xx', 'xx']


def test_no_turn_begins_after_the_last_second(monkeypatch):
  clock = iter(range(100))
  monkeypatch.setattr(strategies.time, 'monotonic', lambda: next(clock))
  env = telling(*[episode.Turn('a')] * 5)
  limits = LIMITS._replace(max_turns=5, seconds=2.5)
  (result,) = roll_out(said(*[1] * 5), env, limits=limits)
  assert (result.status, len(result.exchanges)) == ('max_seconds', 3)
  assert episode.graded(result)


@pytest.mark.parametrize('where', ['reset', 'step'])
def test_a_broken_machine_is_no_fault_of_the_environment(where):
  def fails(*_):
    raise base.InfrastructureFailure('no sandbox')

  env = environment(fails) if where == 'step' else environment(None, fails)
  (result,) = roll_out(said(1), env)
  assert result.status == episode.INFRASTRUCTURE_ERROR
  assert (result.error, episode.graded(result)) == ('no sandbox', False)


def test_columns():
  env = telling(episode.Turn('ab', 0.25), episode.Turn('', 1, done=True))
  (result,) = roll_out(said(2, 1), env)
  assert result.tokens.tolist() == [5, 5, 5, 7, 7, 1, 6, 6, 7, 1]
  assert result.mask.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 1, 1]
  assert result.turn.tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 1, 1]
  assert result.rewards.tolist() == [0, 0, 0, 0, 0, 0.25, 0, 0, 0, 1]
  np.testing.assert_allclose(result.logp, result.mask * -math.log(9), rtol=1e-6)
  assert (result.status, result.error, result.sample) == ('finished', '', 0)
  assert result.exchanges == (
    episode.Exchange('xx', episode.Turn('ab', 0.25)),
    episode.Exchange('x', episode.Turn('', 1, done=True)),
  )
  types = [x.dtype for x in result[2:7]]
  assert types == [np.int32, bool, np.float32, np.float32, np.int32]


def test_a_reward_in_the_middle_of_three_turns():
  env = telling(*(episode.Turn('ab', r) for r in (0, 0.5, -1)))
  (result,) = roll_out(said(0, 1, 2), env)
  assert result.status == episode.MAX_TURNS
  # Nothing follows the last action: no turn would read it.
  assert result.tokens.tolist() == [5, 5, 5, 1, 6, 6, 7, 1, 6, 6, 7, 7, 1]
  assert result.turn.tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
  assert result.rewards[[3, 7, 12]].tolist() == [0, 0.5, -1]
  assert result.rewards.sum() == -0.5 and len(result.exchanges) == 3


def test_requests():
  speaker = said(1, 1, 1)
  env = telling(*[episode.Turn('ab')] * 3)
  tasks = [task('a'), task('b', 'asked')]
  episodes = roll_out(speaker, env, tasks, samples=2)
  assert [(e.task.id, e.sample) for e in episodes] == [
    ('a', 0),
    ('a', 1),
    ('b', 0),
    ('b', 1),
  ]
  paths = [r.path for r in speaker.calls]
  assert paths[:4] == [(4, 2, 0, 0, 0), (4, 2, 0, 1, 0)] + [
    (4, 2, 1, 0, 0),
    (4, 2, 1, 1, 0),
  ]
  assert len(set(paths)) == 12 and {p[-1] for p in paths} == {0, 1, 2}
  assert {r.path[:-1] for r in speaker.calls} == {
    r.session for r in speaker.calls
  }
  assert len({r.session for r in speaker.calls}) == 4
  by_session = [r.tokens for r in speaker.calls if r.session[-2:] == (1, 1)]
  for before, after in zip(by_session, by_session[1:]):
    assert after == (*before, SAID, STOP, SEEN, SEEN)


def test_sampling_stops_where_the_chat_says():
  class Asked(scripted.ScriptedEngine):
    def generate(self, requests, sampling):
      assert sampling.stop == (STOP,) and sampling.temperature == 1
      return super().generate(requests, sampling)

  speaker = Asked(lambda request: [SAID], 9)
  (result,) = roll_out(speaker, telling(episode.Turn('', 1, True)))
  assert result.tokens[-1] == STOP


def test_a_cut_action_ends_the_episode():
  env = telling(episode.Turn('ab'), episode.Turn('never', 1, True))
  (result,) = roll_out(said(1, 8), env)
  assert result.status == episode.MAX_TOKENS
  assert result.tokens.tolist() == [5, 5, 5, 7, 1, 6, 6] + [7] * 8
  assert result.rewards.sum() == 0
  assert result.exchanges[1] == episode.Exchange('x' * 8, episode.Turn(''))
  assert result.turn.tolist() == [0] * 7 + [1] * 8


def test_an_observation_without_room_ends_the_episode():
  env = telling(episode.Turn('abcd', 0.5), episode.Turn('', 1, True))
  for context, status in ((10, episode.MAX_TOKENS), (11, episode.FINISHED)):
    limits = LIMITS._replace(context=context)
    (result,) = roll_out(said(2, 0), env, limits=limits)
    assert result.status == status
    assert (result.mask.sum(), result.rewards[5]) == (3 + (context > 10), 0.5)


def raising(error):
  def fail(*_):
    raise error

  return fail


def answering(*answer):
  return lambda state, text: episode.Turn(*answer)


ENVIRONMENT, REWARD = episode.ENVIRONMENT_ERROR, episode.REWARD_ERROR
FAILING = {
  'raises': (
    raising(KeyError('k')),
    ENVIRONMENT,
    "raised KeyError .* 'xx': 'k'",
  ),
  'says so': (
    raising(base.EnvironmentFailure('no net')),
    ENVIRONMENT,
    'no net',
  ),
  'no text': (answering(3), ENVIRONMENT, 'an observation of type int; return'),
  'no turn': (lambda *_: ('a', 0.0), ENVIRONMENT, 'tuple as its turn; return'),
  'nan': (answering('', math.nan), REWARD, 'the reward nan; return a finite'),
  'inf': (answering('', math.inf), REWARD, 'the reward inf; return a finite'),
  'word': (answering('', 'won'), REWARD, "the reward 'won'; return a finite"),
  'no grade': (raising(base.RewardFailure('no test')), REWARD, 'no test'),
}


@pytest.mark.parametrize('step, status, error', FAILING.values(), ids=FAILING)
def test_a_failing_step_ends_its_episode_alone(step, status, error):
  def second_sample_fails(state, text):
    if state == 1 and len(text) == 2:
      return step(state, text)
    return episode.Turn('ab', 1, done=state == 1)

  speaker = scripted.ScriptedEngine(lambda r: [SAID] * (1 + r.path[-2]), 9)
  good, bad, other = roll_out(
    speaker, environment(second_sample_fails), samples=3
  )
  assert good.status == other.status == episode.FINISHED
  assert (bad.status, episode.graded(bad)) == (status, False)
  assert re.search(error, bad.error)
  assert len(bad.exchanges) == 1
  assert bad.tokens.tolist() == [5, 5, 5, 7, 7, 1, 6, 6, 7, 7, 1]
  assert bad.mask.sum() == 6
  assert episode.total_reward(good) == 2


def test_a_failing_reset_ends_its_episode_alone():
  def reset(asked):
    return {'a': 0}[asked.id]

  env = environment(lambda *_: episode.Turn('', 1, True), reset)
  speaker = said(1)
  good, bad = roll_out(speaker, env, [task('a'), task('b')])
  assert good.status == episode.FINISHED
  assert bad.status == episode.ENVIRONMENT_ERROR
  assert 'env.reset raised KeyError on task b' in bad.error
  assert bad.tokens.tolist() == [5, 5, 5] and not bad.mask.any()
  assert len(speaker.calls) == 1


def test_a_prompt_without_room_to_answer():
  speaker = said(1)
  tasks = [task(), task('long', 'p' * 64)]
  with pytest.raises(ValueError, match="'long': its prompt has 64 .* of 64;"):
    roll_out(speaker, telling(), tasks)
  assert speaker.calls == []


def test_a_limit_below_one():
  with pytest.raises(ValueError, match='max_turns=0.* set each of these'):
    roll_out(said(1), telling(), limits=LIMITS._replace(max_turns=0))


class Odd(scripted.ScriptedEngine):
  """Changes the answers of a scripted engine."""

  def __init__(self, change):
    super().__init__(lambda request: [SAID, SAID], 9)
    self.change = change

  def generate(self, requests, sampling):
    return self.change(super().generate(requests, sampling))


def each(edit):
  return lambda samples: [edit(sample) for sample in samples]


@pytest.mark.parametrize(
  'change, message',
  [
    (
      each(lambda s: s._replace(tokens=s.tokens[:-1])),
      '2 tokens and 3 numbers',
    ),
    (
      each(
        lambda s: s._replace(
          tokens=s.tokens[:-1], logp=s.logp[:-1], versions=s.versions[:-1]
        )
      ),
      "says 'stop', while the stop ids are",
    ),
    (each(lambda s: s._replace(finish='abort')), "says 'abort'"),
    (lambda samples: samples[:-1], 'gave 1 samples for 2 requests; it'),
    (lambda samples: [*samples, samples[0]], 'gave 3 samples for 2 requests'),
  ],
)
def test_answers_that_disagree_with_the_requests(change, message):
  env = environment(lambda *_: episode.Turn('', 1, True))
  with pytest.raises(ValueError, match=message):
    roll_out(Odd(change), env, samples=2)


@hypothesis.given(
  prompt=st.integers(1, 20),
  says=st.lists(st.integers(0, 12), min_size=5, max_size=5),
  seen=st.lists(st.integers(0, 12), min_size=5, max_size=5),
  limits=st.tuples(
    st.integers(1, 5),
    st.integers(1, 10),
    st.integers(21, 50),
    st.integers(1, 40),
  ).map(lambda values: strategies.Limits(*values)),
)
@hypothesis.settings(deadline=None, max_examples=150)
def test_budgets(prompt, says, seen, limits):
  speaker = said(*says)
  env = telling(*(episode.Turn('o' * n, 1) for n in seen))
  (result,) = roll_out(speaker, env, [task('t', 'p' * prompt)], limits=limits)
  assert len(result.tokens) <= limits.context
  assert 1 <= len(speaker.calls) <= limits.max_turns
  sampled = 0
  for request in speaker.calls:
    n = len(request.tokens)
    room, left = limits.context - n, limits.response_tokens - sampled
    assert request.max_tokens == min(limits.turn_tokens, room, left) > 0
    assert tuple(result.tokens[:n]) == request.tokens
    count = min(says[request.path[-1]] + 1, request.max_tokens)
    assert result.mask[n : n + count].all()
    assert set(result.turn[n : n + count]) == {request.path[-1]}
    sampled += count
  assert result.mask.sum() == sampled
  assert {len(x) for x in result[2:7]} == {len(result.tokens)}
  assert sampled <= limits.response_tokens
  assert not result.logp[~result.mask].any()
  version = result.extras['rollout_version']
  assert np.array_equal(version == 0, result.mask)
  assert set(version[~result.mask]) <= {-1}
  assert not result.rewards[~result.mask].any()
  assert set(result.tokens[~result.mask]) <= {ASKED, SEEN}
  stopped = int(result.tokens[result.mask][-1]) == STOP
  if not stopped:
    assert result.status == episode.MAX_TOKENS
  elif len(speaker.calls) == limits.max_turns:
    assert result.status == episode.MAX_TURNS
  elif sampled == limits.response_tokens:
    assert result.status == episode.MAX_TOKENS
  else:
    last = seen[len(speaker.calls) - 1]
    assert result.status == episode.MAX_TOKENS
    assert len(result.tokens) + last >= limits.context
  turns = len(speaker.calls) - (not stopped)
  assert episode.total_reward(result) == turns
