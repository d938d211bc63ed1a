"""reasoning-gym: the oracle, splits, and answers that attack the scorers."""

import time

import numpy as np
import pytest

from arl.envs import base, reasoning

reasoning_gym = pytest.importorskip(
  'reasoning_gym', reason='the adapter is tested against the real package'
)
from reasoning_gym import factory  # noqa: E402

# Those that take long for a problem, or to load.
SLOW = frozenset(
  {
    'arc_agi',
    'codeio',
    'countdown',
    'figlet_font',
    'futoshiki',
    'group_anagrams',
    'knight_swap',
    'quantum_lock',
    'rearc',
    'sokoban',
    'sudoku',
    'word_ladder',
    'zebra_puzzles',
  }
)
FAST = sorted(factory.DATASETS.keys() - reasoning.EXCLUDED.keys() - SLOW)


def one(generator, index=0, **keywords):
  env = reasoning.make(generator=generator, **keywords)
  return env, env.reset(env.task(base.TRAIN, index))


def reward(generator, text, index=0):
  env, state = one(generator, index)
  return env.step(state, text)[1].reward


def test_what_is_left_out_is_there():
  assert reasoning.EXCLUDED.keys() <= factory.DATASETS.keys()
  assert len(FAST) > 80


@pytest.mark.parametrize('generator', FAST)
def test_the_oracle_earns_one(generator):
  env = reasoning.make(generator=generator)
  for split in base.SPLITS:
    task = env.task(split, 0)
    exchanges = base.play(env, task, env.oracle, 2)
    assert [e.turn.reward for e in exchanges] == [1.0], task
    assert exchanges[0].turn.done
    assert env.answer(task) == exchanges[0].action


@pytest.mark.parametrize('generator', ['word_ladder', 'countdown'])
def test_the_oracle_of_some_that_take_long(generator):
  env = reasoning.make(generator=generator)
  task = env.task(base.TRAIN, 0)
  assert base.play(env, task, env.oracle, 2)[0].turn.reward == 1.0


@pytest.mark.parametrize('generator', FAST)
def test_junk_earns_nothing(generator):
  for text in ('', 'xyz', '<answer></answer>', '<think>0'):
    assert reward(generator, text) == 0.0


def test_an_answer_to_another_problem_seldom_helps():
  rng = np.random.default_rng(0)
  for generator in ('chain_sum', 'mini_sudoku', 'spell_backward', 'maze'):
    env = reasoning.make(generator=generator)
    act = lambda state: reasoning.at_random(state, rng)
    plays = [
      base.play(env, env.task(base.TRAIN, i), act, 2)[0].turn.reward
      for i in range(50)
    ]
    assert np.mean(plays) < 0.2


def test_the_answer_is_found_where_it_is_said():
  env, state = one('chain_sum')
  gold = state.task.data['answer']
  said = lambda text: env.step(state, text)[1].reward
  assert said(gold) == said(f' {gold}\n') == 1.0
  assert said(f'<think>so</think>\nIt is <answer> {gold} </answer>.') == 1.0
  assert said(f'<answer>1</answer><answer>{gold}</answer>') == 1.0
  assert said(f'<answer>{gold}</answer><answer>1</answer>') == 0.0
  assert said(f'<think><answer>{gold}</answer>') == 0.0
  assert said(f'{gold} or 1') == 0.0


def test_form_alone_is_paid_nothing_but_a_lower_threshold_pays_for_parts():
  env, state = one('chain_sum')
  text = f'the sum is {state.task.data["answer"]}'
  assert 0 < reasoning.score(state.task, text) < 1
  assert env.step(state, text)[1].reward == 0.0
  env, state = one('chain_sum', threshold=0.01)
  assert env.step(state, text)[1].reward == 1.0


def test_settings_reach_the_generator():
  env, state = one('chain_sum', settings={'min_terms': 2, 'max_terms': 2})
  assert state.task.prompt.count('+') + state.task.prompt.count(' - ') == 1
  other, _ = one('chain_sum')
  assert env.task(base.TRAIN, 0).id != other.task(base.TRAIN, 0).id


def test_the_splits_share_no_problem():
  env = reasoning.make(generator='gcd')
  asked = [{env.task(s, i).prompt for i in range(200)} for s in base.SPLITS]
  assert not set.intersection(*asked)
  assert env.task(base.TRAIN, 5) == env.task(base.TRAIN, 5)


@pytest.mark.parametrize(
  'generator', [*reasoning._EVALUATE, 'countdown', 'simple_integration']
)
def test_no_answer_is_run(generator, tmp_path):
  mark = tmp_path / 'mark'
  call = f"open('{mark}', 'w').close()"
  for text in (f'[{call}]', call, f'"{call}"', f'(lambda: {call})()'):
    assert reward(generator, text) == 0.0
  assert not mark.exists()


@pytest.mark.parametrize(
  'generator, text',
  [
    ('countdown', '9**9**9**9'),
    ('countdown', 'factorial(10**9)'),
    ('simple_integration', '9**9**9**9'),
    ('simple_integration', '((9**99)**99)**99'),
    ('simple_integration', '*'.join(['(x+1)'] * 100)),
    ('simple_integration', 'Integral(x, x)'),
    ('polynomial_multiplication', 'expand((x+y)**99)'),
    ('coin_flip', '1e999999999'),
    ('decimal_arithmetic', '1e999999999'),
    ('power_function', '1e999999999'),
    ('n_queens', '[' * 10_000),
    ('n_queens', '-' * 10_000 + '1'),
    ('spiral_matrix', "[x for x in 'ab' for y in 'ab']"),
    ('jugs', '[' * 20_000),
    ('binary_matrix', '9' * 20_000),
    ('chain_sum', 'x' * 1_000_000),
  ],
)
def test_no_answer_takes_long(generator, text):
  env, state = one(generator)
  began = time.monotonic()
  turn = base.checked_step(env, state, text)[1]
  assert (turn.reward, turn.done) == (0.0, True)
  assert time.monotonic() - began < 20


def test_a_scorer_that_raises_on_an_answer_finds_it_wrong():
  assert reward('prime_factorization', 'seven') == 0.0


def test_a_scorer_that_is_broken_gives_no_grade(monkeypatch):
  env, state = one('chain_sum')
  dataset = reasoning._dataset('chain_sum', '{}')
  monkeypatch.setattr(type(dataset), 'score_answer', lambda *_: 1 / 0)
  with pytest.raises(base.RewardFailure, match='ZeroDivisionError'):
    base.checked_step(env, state, '1')


def test_a_state_is_a_snapshot():
  env, state = one('countdown')
  gold = env.oracle(state)
  kept = [env.step(state, text) for text in ('1', gold, '1')]
  assert kept[0] == kept[2] and kept[1][1].reward == 1.0
  with pytest.raises(ValueError, match='reset first'):
    env.step(kept[0][0], gold)


def test_refusals():
  with pytest.raises(ValueError, match='puzzle24 is left out: numbers that'):
    reasoning.make(generator='puzzle24')
  with pytest.raises(ValueError, match="no generator 'sums'; generators: ab"):
    reasoning.make(generator='sums')
  with pytest.raises(ValueError, match='threshold is 0'):
    reasoning.make(generator='gcd', threshold=0)
