"""Failures that are reflected on and tried again: rows, masks, what is kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl import episode, methods, types
from arl.envs import hinted, keydoor, mistakes
from arl.methods import compose
from arl.models import tokenizers
from arl.rollout import asides, engine, pack, retries, scripted, strategies
from arl.rollout import chat as chat_lib

ENV = keydoor.make(length=1, sides=2)
CHAT = chat_lib.chat(tokenizers.characters())
LIMITS = strategies.Limits(
  max_turns=5, turn_tokens=30, context=700, response_tokens=200
)
ASKED = 'what went wrong'


class Player(scripted.ScriptedEngine):
  """Fails until it is told a hint that `helps`; reflects as `reflect` says.

  It takes from turn `at` on, and log-probs tell whether there was a hint.
  """

  def __init__(self, reflect, helps=lambda hint: True, at=2):
    super().__init__(self.say, vocab=128)
    self.reflect, self.helps, self.at = reflect, helps, at
    self.states, self.asked = {}, []

  def say(self, request):
    text = CHAT.decode(request.tokens)
    if ASKED in text:
      self.asked.append(text)
      return CHAT.action(self.reflect(request.path[1]))[:-1]
    _, place, sample, turn = request.path
    hint = text.partition('hint: ')[2].partition('\n')[0]
    good = turn < self.at or (hint and self.helps(hint))
    task = ENV.task('train', place)
    state = ENV.reset(task)
    for _ in range(min(turn, self.at) if not good else turn):
      state, _ = ENV.step(state, ENV.oracle(state))
    return CHAT.action(ENV.oracle(state) if good else 'take')[:-1]

  def _answer(self, request, stop):
    made = super()._answer(request, stop)
    told = 'hint: ' in CHAT.decode(request.tokens)
    return made._replace(logp=made.logp + 0.5 * told)


def roll_out(speaker, strategy=retries.r3l, *, samples=8, tasks=2, **limits):
  return strategy(
    speaker,
    ENV,
    CHAT,
    [ENV.task('train', i) for i in range(tasks)],
    strategies.Plan(
      samples, engine.Sampling(), LIMITS._replace(**limits), (3,)
    ),
  )


def begun(one):
  return int(one.turn[one.mask].min())


def split(made):
  """The episodes of the tasks, and the pairs."""
  pairs = [one for one in made if one.extras['demonstrated'].any()]
  plain = [one for one in made if not one.extras['demonstrated'].any()]
  return plain, pairs


def test_retries_are_of_the_plain_task_and_were_sampled_behind_the_reflection():
  speaker = Player(lambda place: f'3: go on {place}')
  plain, pairs = split(roll_out(speaker))
  assert len(speaker.asked) == 4
  assert all('- 3 take' in text for text in speaker.asked)
  groups = episode.groups(plain)
  assert [len(g.episodes) for g in groups] == [4, 4]
  for group in groups:
    base, tried = group.episodes[:2], group.episodes[2:]
    assert [one.sample for one in group.episodes] == [*range(4)]
    assert [episode.total_reward(one) for one in group.episodes] == [0, 0, 1, 1]
    for one in tried:
      opening = CHAT.opening(one.task)
      assert one.tokens[: len(opening)].tolist() == opening
      assert 'hint' not in CHAT.decode(one.tokens)
      told = one.turn >= 2
      usual = -np.log(128)
      np.testing.assert_allclose(one.logp[one.mask & told], usual + 0.5)
      np.testing.assert_allclose(one.logp[one.mask & ~told], usual)
      assert len(one.tokens) == len(one.rewards) == len(one.turn)
      assert one.rewards[np.flatnonzero(one.mask)[-1]] == 1
    for one in group.episodes:
      np.testing.assert_array_equal(one.extras['pivotal'], one.turn >= 2)
    n = int(np.flatnonzero(base[0].turn >= 2)[0])
    np.testing.assert_array_equal(tried[0].tokens[:n], base[0].tokens[:n])


def test_what_helped_comes_once_more_with_its_reflection():
  speaker = Player(lambda place: f'3: go on {place}')
  plain, pairs = split(roll_out(speaker))
  whole = episode.trajectories(pairs)
  assert [len(rows) for rows in whole] == [2] * 4
  assert all(len(g.episodes) == 4 for g in episode.groups(pairs))
  for reflection, guided in whole:
    assert reflection.task == guided.task and guided.task.id.endswith(
      episode.DEMONSTRATION
    )
    text = CHAT.decode(reflection.tokens[reflection.mask])
    assert text.startswith('3: go on')
    assert ASKED in CHAT.decode(reflection.tokens[~reflection.mask])
    assert f'hint: {text}\n' in CHAT.decode(guided.tokens)
    assert begun(guided) == 2 and not guided.extras['pivotal'].any()
    assert episode.total_reward(guided) == 1
  assert len(plain) + len(pairs) == 16
  calls = sum(len(speaker.say(call)) + 1 for call in list(speaker.calls))
  assert retries.r3l.tells([*plain, *pairs]) == {
    'tokens': calls, 'retried': 0.5, 'improved': 1.0,
  }  # fmt: skip


def test_a_retry_that_is_no_better_stays_and_is_not_imitated():
  speaker = Player(lambda place: '2: no', helps=lambda hint: False)
  plain, pairs = split(roll_out(speaker))
  assert len(plain) == 8 and not pairs
  assert all(episode.total_reward(one) == 0 for one in plain)
  assert retries.r3l.tells(plain)['improved'] == 0


def test_a_reflection_that_names_no_turn_is_on_the_last():
  plain, _ = split(roll_out(Player(lambda place: 'who knows')))
  for group in episode.groups(plain):
    for one in group.episodes[2:]:
      np.testing.assert_array_equal(one.extras['pivotal'], one.turn >= 4)
      assert 'hint' not in CHAT.decode(one.tokens)


@pytest.mark.parametrize('text', ['', 'x' * 40])
def test_without_a_reflection_the_rest_begin_anew(text):
  """An empty one, and one that comes to no end."""
  plain, pairs = split(roll_out(Player(lambda place: text)))
  assert len(plain) == 8 and not pairs
  assert all(one.extras['pivotal'].all() for one in plain)


def test_one_without_room_begins_anew():
  """The question has none, or else what is told behind the answer."""
  speaker = Player(lambda place: '5: ' + 'x' * 20)
  roll_out(speaker)
  asked, told = (
    min(len(c.tokens) for c in speaker.calls if word in CHAT.decode(c.tokens))
    for word in (ASKED, 'hint: ')
  )
  for context in (asked, told):
    plain, _ = split(roll_out(speaker, context=context))
    assert len(plain) == 8
    assert all(one.extras['pivotal'].all() for one in plain)


def test_solved_tasks_are_not_tried_again():
  speaker = Player(lambda place: '3: on', at=9)
  plain, pairs = split(roll_out(speaker))
  assert len(plain) == 8 and not pairs and not speaker.asked
  assert all(episode.total_reward(one) == 1 for one in plain)


def test_the_control_is_told_the_reflection_on_another_task():
  own = lambda hint: hint == '3: go on 0'
  speaker = Player(lambda place: f'3: go on {place}', helps=own)
  for strategy, solved in ((retries.r3l, 0), (retries.r3l_shuffled, 1)):
    plain, _ = split(roll_out(speaker, strategy))
    for place, group in enumerate(episode.groups(plain)):
      got = [episode.total_reward(one) for one in group.episodes]
      assert got == [0, 0, *[float(place == solved)] * 2]


def test_each_is_told_one_of_the_next_task_that_has_any():
  said = [[asides.Said(x) for x in each] for each in ('ab', '', 'c', 'def')]
  texts = lambda told: [''.join(x.text for x in each) for each in told]
  assert texts(retries.of_another(said)) == ['cc', '', 'd', 'aba']
  assert texts(retries.of_another(said[:2])) == ['ab', '']
  assert texts(retries.own(said)) == ['ab', '', 'c', 'def']


def test_samples_that_leave_no_base_are_refused():
  with pytest.raises(ValueError, match='2 retries of a task are kept 6'):
    roll_out(Player(lambda place: ''), samples=6)


def test_another_opening_and_back():
  plain, _ = split(roll_out(Player(lambda place: '1: go')))
  task = plain[0].task
  row = strategies.Live(task, 0, ())
  row.observe(CHAT.opening(task))
  row.observe([7, 8])
  told = CHAT.opening(hinted.told(task, 'so'))
  longer = retries.reopened(row, told, len(CHAT.opening(task)))
  assert longer.tokens == [*told, 7, 8] and len(longer.mask) == len(told) + 2
  back = retries.reopened(longer, CHAT.opening(task), len(told))
  assert back.tokens == row.tokens and back.turn == row.turn


@pytest.mark.parametrize(
  'text, turn', [('2: x', 1), (' 1 : x', 0), ('x 2: y', None), ('6: x', None)]
)
def test_the_turn_that_a_reflection_names(text, turn):
  assert mistakes.pivot(text, 5) == turn


# What is learnt from it.


def test_before_the_pivot_nothing_is_learnt_and_pairs_are_imitated_alone():
  made = roll_out(Player(lambda place: '3: on'), tasks=1)
  keywords = {'base': {'name': 'grpo.dapo'}, 'alpha': 2.0, 'coef': 0.5}
  method = compose.method(methods.make('resets.r3l', **keywords))
  batch = types.columns(
    pack.pad(
      made,
      rows=len(made),
      width=700,
      max_turns=5,
      extras=sorted(method.needs & {'pivotal', 'demonstrated'}),
    )
  )
  counts = [
    len(np.unique(batch['seq'].ids)),
    len(np.unique(batch['group'].ids)),
  ]
  assert counts == [6, 2]  # a pair is one sequence; pairs are a group
  # The trainer, without the reflection, finds retries less likely by 0.3.
  seen = np.array(['hint' in CHAT.decode(one.tokens) for one in made])
  columns = {**batch, 'old_logp': batch['rollout_logp'] + 0.3}
  credits = jax.jit(method.credit)(columns)
  weights = jax.jit(method.weigh)(columns, credits)

  def loss(logp):
    return method.loss({**columns, 'logp': logp}, credits, weights)[0]

  gradient = np.asarray(
    jax.jit(jax.grad(loss))(jnp.asarray(columns['old_logp']))
  )
  plain, pairs = split(made)
  advantage = np.array(credits['policy']['advantage'])
  tokens = sum(int((one.mask & one.extras['pivotal']).sum()) for one in plain)
  shown = sum(int(one.mask.sum()) for one in pairs)
  deviation = np.std([0, 0, 1, 1], ddof=1) + 1e-6
  for one, row, got in zip(made, gradient, advantage):
    n = len(one.tokens)
    on = one.mask & (one.extras['pivotal'] | one.extras['demonstrated'])
    assert not np.any(row[:n][~on]) and not np.any(row[n:])
    if one.extras['demonstrated'].any():
      np.testing.assert_allclose(row[:n][on], -0.5 / shown, rtol=1e-5)
    else:
      centered = episode.total_reward(one) - 0.5
      want = centered / deviation * (2 if centered > 0 else 1)
      np.testing.assert_allclose(got[:n][one.mask], want, rtol=1e-5)
      factor = np.exp(0.3)  # below the cap
      np.testing.assert_allclose(
        row[:n][on], -want * factor / tokens, rtol=1e-4
      )
  assert seen.sum() == len(pairs) // 2
