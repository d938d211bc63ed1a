"""Searches: as a plain one computes them, token-exact, and in few calls."""

import collections
import math

import jax
import numpy as np
import pytest
import test_vine
import tiny as tiny_lib

from arl import episode
from arl.envs import base
from arl.models import tokenizers, transformer
from arl.prompts import pairs
from arl.rollout import chat, engine, local, ranking, search, strategies

LIMITS = test_vine.LIMITS
says = test_vine.says


def roll_out(strategy, script, *, samples=6, env=None, count=1):
  env = env or test_vine.counted()
  speaker = test_vine.Counting(script)
  made = strategy(
    speaker,
    env,
    chat.chat(tiny_lib.tokenizer(), observation_role='user'),
    [env.task(base.TRAIN, i) for i in range(count)],
    strategies.Plan(samples, engine.Sampling(), LIMITS, (5,)),
  )
  return made, speaker


def proposes(*texts, samples=6, then='b'):
  """Proposes these texts in every state, and plays on by another."""

  def script(request):
    *_, sample, _ = request.path
    return says(texts[sample - samples] if sample >= samples else then)

  return script


def backwards(speaker, chat, questions, plan):
  """Ranks the last proposal first."""
  return [list(range(len(each.actions)))[::-1] for each in questions]


def nothing(speaker, chat, questions, plan):
  return [None for _ in questions]


def simulated(letters, samples, alpha, c, ranked):
  """A search of three turns, worth 1 with two letters 'a', by recursion.

  Returns:
    The actions of each simulation and how many of them are in the tree; the
    worth of each action by what was said before it.
  """
  k = len(letters)
  value = collections.defaultdict(lambda: [0.0] * k)
  seen = collections.defaultdict(lambda: [0] * k)

  def worth(h, i):
    if ranked is None:
      return value[h][i]
    return alpha * value[h][i] + (1 - alpha) * ranked[i]

  def bound(h, i):
    total = max(sum(seen[h]), 1)
    return worth(h, i) + c * math.sqrt(math.log(total) / (1 + seen[h][i]))

  def down(h):
    if len(h) == 3:
      return h, 3, float(h.count('a') >= 2)
    i = max(range(k), key=lambda i: (bound(h, i), -i))
    after = h + letters[i]
    if seen[h][i]:
      told = down(after)
    else:
      rest = after + 'b' * (3 - len(after))
      told = rest, len(after), float(rest.count('a') >= 2)
    value[h][i] = (value[h][i] * seen[h][i] + told[2]) / (seen[h][i] + 1)
    seen[h][i] += 1
    return told

  made = [down('') for _ in range(samples)]
  return made, {
    h + letter: worth(h, i) for h in value for i, letter in enumerate(letters)
  }


@pytest.mark.parametrize('alpha, c', [(0.5, 1.0), (0.8, 0.3), (1.0, 1.0)])
@pytest.mark.parametrize('rank', [backwards, nothing])
def test_a_search_is_what_a_plain_one_computes(rank, alpha, c):
  letters, samples = 'bca', 30
  ranked = [1 / 3, 1 / 2, 1.0] if rank is backwards else None
  plain, worth = simulated(letters, samples, alpha, c, ranked)
  made, _ = roll_out(
    search.guided(3, rank, alpha=alpha, c=c),
    proposes(*letters, samples=samples),
    samples=samples,
  )
  assert [one.sample for one in made] == list(range(samples))
  for one, (said, depth, reward) in zip(made, plain, strict=True):
    assert ''.join(each.action for each in one.exchanges) == said
    assert episode.total_reward(one) == reward
    value, ranked_ = one.extras['action_value'], one.extras['ranked']
    for turn in range(3):
      here = one.mask & (one.turn == turn)
      if turn < depth:
        np.testing.assert_allclose(value[here], worth[said[: turn + 1]], 1e-6)
        assert np.all(ranked_[here] == (rank is backwards))
      else:
        assert np.all(np.isnan(value[here])) and not np.any(ranked_[here])
    assert np.all(np.isnan(value[~one.mask])) and not np.any(ranked_[~one.mask])


def test_what_leads_to_success_is_worth_most_in_the_end():
  made, _ = roll_out(
    search.guided(3, nothing),
    proposes('b', 'a', 'c', samples=200),
    samples=200,
  )
  late = made[100:]
  assert np.mean([episode.total_reward(one) for one in late]) > 0.8
  (first,) = {
    one.extras['action_value'][one.mask & (one.turn == 0)][0]
    for one in made
    if one.exchanges[0].action == 'a'
  }
  others = [
    one.extras['action_value'][one.mask & (one.turn == 0)][0]
    for one in made
    if one.exchanges[0].action != 'a'
  ]
  assert first > max(others)


def test_searches_of_all_tasks_take_their_steps_together():
  strategy = search.guided(3, nothing)
  _, alone = roll_out(strategy, proposes('b', 'c', 'a'))
  made, speaker = roll_out(strategy, proposes('b', 'c', 'a'), count=4)
  assert len(speaker.asked) == len(alone.asked)
  assert [len(each) for each in speaker.asked] == [
    4 * len(each) for each in alone.asked
  ]
  for asked in speaker.asked:
    assert len({len(request.path) for request in asked}) == 1
  paths = [request.path for asked in speaker.asked for request in asked]
  assert len(set(paths)) == len(paths)
  assert len({one.task.id for one in made}) == 4


def test_of_proposals_that_say_the_same_the_first_is_kept():
  made, _ = roll_out(search.guided(3, backwards), proposes('b', 'a', 'b'))
  plain, _ = simulated('ba', 6, 0.5, 1.0, [0.5, 1.0])
  texts = [''.join(x.action for x in one.exchanges) for one in made]
  assert texts == [said for said, _, _ in plain]
  same, _ = roll_out(search.guided(3, backwards), proposes('b', 'b', 'b'))
  assert not any(np.any(one.extras['ranked']) for one in same)
  assert pairs.siblings(episode.groups(same)) == []


def test_what_a_limit_cuts_ends_there_and_is_another_action():
  made, _ = roll_out(
    search.guided(2, nothing), proposes('aaaaaa', 'aaaaa'), samples=6
  )
  ends = {one.status for one in made}
  assert ends == {episode.MAX_TOKENS, episode.FINISHED}


def test_a_failure_is_the_last_of_its_task_and_counts_for_nothing():
  env = test_vine.counted(broken='c')
  made, _ = roll_out(
    search.guided(2, nothing), proposes('b', 'c'), env=env, count=2
  )
  for task in episode.groups(made):
    *others, last = task.episodes
    assert {one.status for one in others} == {episode.FINISHED}
    assert last.status == episode.ENVIRONMENT_ERROR
    assert 'lost' in last.error and len(task.episodes) < 6
  graded = [one for one in made if episode.graded(one)]
  assert pairs.siblings(episode.groups(graded)) == []
  lost = env._replace(reset=lambda task: 1 / 0)
  made, speaker = roll_out(search.guided(2, nothing), proposes('a'), env=lost)
  assert [one.status for one in made] == [episode.ENVIRONMENT_ERROR]
  assert not speaker.asked


def test_a_critic_that_cannot_be_asked_leaves_the_outcomes():
  asked, _ = roll_out(
    search.guided(2, ranking.by_critic), proposes('a', 'b')
  )  # this tokenizer spells no question
  plain, _ = roll_out(search.guided(2, nothing), proposes('a', 'b'))
  for one, other in zip(asked, plain):
    np.testing.assert_array_equal(one.tokens, other.tokens)
    for name in ('action_value', 'ranked'):
      np.testing.assert_array_equal(one.extras[name], other.extras[name])


def test_a_critic_that_is_understood_guides_the_search():
  tokenizer = tokenizers.characters()
  samples, questions = 5, []

  def script(request):
    *_, sample, _ = request.path
    text = (
      [*'baac', '2 > 1 > 3'][sample - samples] if sample >= samples else 'b'
    )
    if sample == samples + 4:
      questions.append(tokenizer.decode(request.tokens))
    return tokenizer.encode(text, add_special_tokens=False)

  env = test_vine.counted()
  made = search.by_critic(
    test_vine.Counting(script),
    env,
    chat.chat(tokenizer, observation_role='user'),
    [env.task(base.TRAIN, 0)],
    strategies.Plan(
      samples,
      engine.Sampling(),
      LIMITS._replace(context=400, turn_tokens=12),
      (5,),
    ),
  )
  plain, worth = simulated('bac', samples, 0.5, 1.0, [1 / 2, 1, 1 / 3])
  assert all('1. b\n2. a\n3. c\n' in each for each in questions)
  for one, (said, depth, _) in zip(made, plain, strict=True):
    assert ''.join(each.action for each in one.exchanges) == said
    for turn in range(depth):
      here = one.mask & (one.turn == turn)
      value = one.extras['action_value'][here]
      np.testing.assert_allclose(value, worth[said[: turn + 1]], 1e-6)
      assert np.all(one.extras['ranked'][here])


@pytest.mark.parametrize(
  'count, numbers',
  [(1, {}), (2, {'alpha': 1.1}), (2, {'alpha': -0.1}), (2, {'c': -1.0}),
   (2, {'c': math.nan}), (2, {'alpha': math.nan})],
)  # fmt: skip
def test_numbers_out_of_range(count, numbers):
  with pytest.raises(ValueError, match='^search.guided: count '):
    search.guided(count, nothing, **numbers)


def test_what_the_strategies_give():
  for strategy in (search.by_critic, search.by_likelihood):
    assert strategy.gives == {'ranked'}


@pytest.fixture(scope='module')
def searched():
  """Searches by a model, and its engine."""
  model = transformer.make(tiny_lib.size())
  params = model.init(jax.random.key(3))
  params = jax.tree.map(lambda x: 4 * x, params)  # neither certain nor uniform
  speaker = local.LocalEngine(model, params, slots=8, context=32, seed=1)
  env = tiny_lib.letters()
  made = search.by_likelihood(
    speaker,
    env,
    chat.chat(tiny_lib.tokenizer(), observation_role='user'),
    [env.task(base.TRAIN, i) for i in range(3)],
    strategies.Plan(8, engine.Sampling(), LIMITS._replace(context=32), (0, 0)),
  )
  return made, speaker


def check_scores(speaker, episodes):
  scores = speaker.score([one.tokens.tolist() for one in episodes], 1.0)
  for one, score in zip(episodes, scores):
    np.testing.assert_allclose(
      one.logp, np.where(one.mask, score, 0), rtol=0, atol=1e-4
    )


def test_log_probs_are_those_of_the_tokens(searched):
  made, speaker = searched
  assert len(made) == 24
  check_scores(speaker, made)


def test_pairs_hold_an_action_each_and_what_it_was_sampled_with(searched):
  made, speaker = searched
  groups = pairs.siblings(episode.groups(made))
  assert groups
  assert len({group.task.id for group in groups}) == len(groups)
  for group in groups:
    better, worse = group.episodes
    first = [int(np.flatnonzero(one.mask)[0]) for one in group.episodes]
    assert first[0] == first[1]
    np.testing.assert_array_equal(
      better.tokens[: first[0]], worse.tokens[: first[0]]
    )
    assert all(np.all(one.mask[first[0] :]) for one in group.episodes)
    gap = episode.total_reward(better) - episode.total_reward(worse)
    assert gap > 0.2
    check_scores(speaker, group.episodes)
