"""Search: BM25 by hand, the made-up worlds, questions and answers."""

import math
import time

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from arl import episode
from arl.envs import base, bm25, search, search_corpus, tools

ENV = search.make()
ARTICLES = search.make(style='articles', max_hops=3, passages=3)
TEXTS = ('the red cat', 'the red red dog', 'a bird', 'the cat and the dog')


def test_bm25_by_hand():
  # Lengths 3, 4, 2, 5, so the mean is 3.5; 'red' stands in 2 of 4 texts.
  index = bm25.build(TEXTS)
  rare = math.log(1 + 2.5 / 2.5)
  at, scores = index.scores['red']
  once = 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 3 / 3.5))
  twice = 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 3.5))
  assert at.tolist() == [0, 1]
  np.testing.assert_allclose(scores, [rare * once, rare * twice])


@pytest.mark.parametrize(
  'query, found',
  [
    ('red', [1, 0]),
    ('Red CAT!', [0, 1, 3]),
    ('cat dog', [3, 0, 1]),
    ('bird', [2]),
    ('fish', []),
    ('', []),
    ('red ' * 1000, [1, 0]),
    ('x' * 300 + ' red', []),  # beyond what is read
  ],
)
def test_search_order(query, found):
  assert bm25.top(bm25.build(TEXTS), query, 3) == found


def test_equal_texts_keep_their_order():
  index = bm25.build(['b a', 'a b', 'a b'])
  assert bm25.top(index, 'a', 2) == [0, 1]


@hypothesis.given(
  st.lists(st.text('abc ', max_size=12), min_size=1, max_size=8),
  st.text('abcd ', max_size=12),
)
def test_bm25_against_its_formula(texts, query):
  index = bm25.build(texts)
  split = [bm25.words(text) for text in texts]
  mean = max(np.mean([len(words) for words in split]), 1.0)

  def score(words):
    total = 0.0
    for word in set(bm25.words(query)):
      holding = sum(word in other for other in split)
      rare = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
      times = words.count(word)
      norm = 1.2 * (0.25 + 0.75 * len(words) / mean)
      total += rare * times * 2.2 / (times + norm)
    return total

  scores = [score(words) for words in split]
  found = bm25.top(index, query, len(texts))
  assert set(found) == {i for i, each in enumerate(scores) if each > 0}
  ranked = [scores[i] for i in found]
  np.testing.assert_allclose(ranked, sorted(ranked, reverse=True))


@pytest.mark.parametrize('style', search_corpus.STYLES)
@pytest.mark.parametrize('seed', [0, 1])
def test_every_fact_is_told_and_found(style, seed):
  corpus = search_corpus.make(style, 800, seed)
  assert len(corpus.facts) == 4 * 800 == 4 * len(corpus.relations)
  for (name, relation), fact in corpus.facts.items():
    told = corpus.passages[fact.passage]
    assert told.startswith(name) and fact.value in told
    assert len(told) <= 100
    found = bm25.top(corpus.lookup, corpus.query(name, relation), 3)
    assert fact.passage in (found[:1] if style == 'letters' else found)


def test_worlds_differ_by_seed_and_not_by_call():
  one, other = (search_corpus.make('articles', 100, s).passages for s in (0, 1))
  assert one != other
  search_corpus.make.cache_clear()
  assert search_corpus.make('articles', 100, 0).passages == one


def test_an_episode():
  task = episode.Task(
    'by hand',
    'sov firm twin?',
    {'chain': [['sov', 'firm'], ['pdv', 'twin']], 'answer': 'duu'},
  )
  state, seen = ENV.reset(task), []
  for action in (
    'search(twin pdv)', 'search(sov firm)', 'search(qqqq)', 'search(pdv twin)',
    'answer( Duu. )',
  ):  # fmt: skip
    state, turn = ENV.step(state, action)
    seen.append(turn)
  assert seen == [
    episode.Turn('pdv twin duu', 0.0, False, 0.0),  # not yet asked for
    episode.Turn('sov firm pdv', 0.0, False, 1.0),
    episode.Turn('nothing found', 0.0, False, 0.0),
    episode.Turn('pdv twin duu', 0.0, False, 1.0),
    episode.Turn('', 1.0, True, 1.0),
  ]


@pytest.mark.parametrize(
  'action',
  ['search', 'search(', 'searh(x)', 'answer', ' (x)', 'search(x) now', 'x'],
)
def test_faults(action):
  task = ENV.task(base.TRAIN, 0)
  _, turn = ENV.step(ENV.reset(task), action)
  assert turn.text == 'error: say search(words) or answer(text)'


def answered(env, task, said):
  return env.step(env.reset(task), f'answer({said})')[1].reward


def test_answers_are_compared_as_in_squad():
  by_words = search.make(style='articles', grade='f1')
  task = episode.Task('', '', {'chain': [], 'answer': 'Tosan river'})
  for said, exact, f1 in (
    ('Tosan river', 1, 1),
    ('the TOSAN  river.', 1, 1),
    ('Tosan', 0, 2 / 3),
    ('Tosan river or Bel river', 0, 2 * 2 / 7),
    ('Bel', 0, 0),
    ('', 0, 0),
    ('Tosan river ' * 100, 0, 2 * 2 / 202),
    ('a (b, c) d', 0, 0),
  ):
    assert answered(ARTICLES, task, said) == exact
    assert answered(by_words, task, said) == pytest.approx(f1)


@pytest.mark.parametrize('env, most', [(ENV, 2), (ARTICLES, 3)])
def test_questions(env, most):
  starts, questions = {}, {}
  for split in base.SPLITS:
    tasks = [env.task(split, index) for index in range(1000)]
    chains = [task.data['chain'] for task in tasks]
    starts[split] = {chain[0][0] for chain in chains}
    questions[split] = {task.prompt for task in tasks}
    hops = np.bincount([len(chain) for chain in chains])[1:] / 1000
    np.testing.assert_allclose(hops, 1 / most, atol=0.05)
    for task in tasks:
      things = [name for name, _ in task.data['chain']]
      assert len({*things, task.data['answer']}) == len(things) + 1
      assert task.data['answer'].lower() not in task.prompt.lower()
  assert not starts[base.TRAIN] & starts[base.HELD_OUT]
  assert not questions[base.TRAIN] & questions[base.HELD_OUT]


def test_letters_are_short_and_within_the_alphabet_of_tools():
  env, longest = search.make(max_hops=3), 0
  for index in range(500):
    task = env.task(base.TRAIN, index)
    exchanges = base.play(env, task, env.oracle, 4)
    texts = [task.prompt]
    texts += [text for e in exchanges for text in (e.action, e.turn.text)]
    assert set(''.join(texts)) <= set(tools.ALPHABET)
    longest = max(longest, len(''.join(texts)) + len(texts))
  assert longest == 123


def test_an_answer_needs_no_search():
  for env in (ENV, ARTICLES):
    for index in range(100):
      task = env.task(base.TRAIN, index)
      _, turn = env.step(env.reset(task), env.answer(task))
      assert (turn.reward, turn.done, turn.process) == (1.0, True, 1.0)


@pytest.mark.parametrize('action', ['search({})', 'answer({})', '{}'])
@pytest.mark.parametrize('junk', ['a', '(', ')', 'search(', 'aaa ', '\n'])
def test_junk_is_quick(action, junk):
  state = ENV.reset(ENV.task(base.TRAIN, 0))
  began = time.process_time()
  ENV.step(state, action.format(junk * (100_000 // len(junk))))
  assert time.process_time() - began < 0.5


@pytest.mark.parametrize('env', [ENV, ARTICLES])
def test_the_demonstrator_is_fallible(env):
  rng = np.random.default_rng(0)
  rewards = [
    base.play(env, env.task(base.TRAIN, i), lambda s: env.noisy(s, rng), 5)[
      -1
    ].turn.reward
    for i in range(1000)
  ]
  assert 0.44 < np.mean(rewards) < 0.58
