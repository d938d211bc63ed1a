"""The worlds of the study of retries, and what it measures in them."""

import numpy as np
import pytest

from arl import episode
from arl.envs import base, keydoor
from arl.rollout import engine as engine_lib
from arl.rollout import resets, retries, strategies
from experiments.studies import forks, resetting, retrying, retrying_worlds


def test_the_oracle_walks_the_forks_and_one_wrong_way_is_the_end():
  env = forks.make()
  for index in range(9):
    task = env.task(base.TRAIN, index)
    played = base.play(env, task, env.oracle, forks.LENGTH)
    assert played[-1].turn.done and played[-1].turn.reward == 1
    seen = [task.prompt, *(e.turn.text for e in played[:-1])]
    assert [x for x in seen if '?' in x] == [f'{1 + index}?']

    def once_wrong(state):
      right = env.oracle(state)
      return 'take' if state.turns == 3 and right != 'take' else right

    wrong = base.play(env, task, once_wrong, forks.LENGTH)
    went = env.oracle(forks.State(task, 3)) == 'take'
    assert wrong[-1].turn.reward == went and len(wrong) == forks.LENGTH


@pytest.mark.parametrize('insight, low, high', [(1.0, 1, 1), (0.0, 0, 0.3)])
def test_an_answer_goes_the_way_of_an_answer(insight, low, high):
  env = forks.make()
  walker = forks.Walker(forks.start(), 0, insight)
  tasks = resetting.tasks_of(env, base.TRAIN, 0, 30)
  plan = resetting.plan_of(8, forks.LIMITS, 0)
  made = resets.srpo(walker, env, walker.chat, tasks, plan)
  told = resets.srpo.tells(made)
  assert low <= told['located'] <= high
  assert told['tokens'] == walker.sampled


def test_nothing_saves_an_erroneous_beginning():
  told = resetting.suffixes(0, 40)
  assert told['erroneous'] == 0 < told['clean'] < 0.2


def test_learning_is_seen_within_the_budget():
  told = resetting.learn('SRPO, told by an oracle', 0, 1500)
  assert told['located'] == 1 and 0 <= told['success'] <= 1


def doors(seed=0, heed=1.0):
  env, words = keydoor.make(length=2, sides=4), retrying_worlds.Words()
  return env, words, retrying_worlds.Seeker(words, seed, heed)


def test_a_seeker_reaches_the_goal_and_never_repeats_itself():
  env, words, seeker = doors()
  limits = strategies.Limits(30, 16, 200, 1000)
  tasks = resetting.tasks_of(env, base.TRAIN, 0, 10)
  plan = strategies.Plan(2, engine_lib.Sampling(), limits, (0,))
  for one in strategies.multi_turn(seeker, env, words.chat, tasks, plan):
    assert one.status == episode.FINISHED and episode.total_reward(one) == 1
    said = [e.action for e in one.exchanges if e.action.startswith('go')]
    assert not any('error' in e.turn.text for e in one.exchanges)
    tried = [action for i, action in enumerate(said) if action in said[:i]]
    assert len(tried) <= len(said) / 2  # back to a hall, never into a room


def test_a_reflection_is_what_the_failure_showed():
  shown = '\n'.join([
    'what went wrong? ...', '? find s', '? 2 h: g i r! x', '- 1 go g',
    '> 2 g: h', '- 2 go h', '> 2 h: g i r! x', '- 3 go x', '> 2 x: h key',
    '- 4 take', '> 2 x: h held', '- 5 go h', '> 2 h: g i r! x held',
  ])  # fmt: skip
  seeker = doors()[2]
  assert seeker.say([shown], None, None) == '1: key in x not in g'


def test_retries_that_are_heeded_are_better_than_those_that_are_not():
  own, deaf = (
    retrying.retried(retries.r3l, 0, heed, 25)['improved'] for heed in (1, 0)
  )
  assert own > 0.8 > 0.7 > deaf


def test_responses_hold_what_decides():
  rng = np.random.default_rng(0)
  how = retrying_worlds.Decided(gain=1.0, noise=0.0)
  for _ in range(20):
    made = retrying_worlds.response(rng, how)
    assert len(made.decides) == 2 and max(made.decides) < 144 < 180
    assert len(set(made.decides) & set(made.starts)) == 1
    assert len(made.entropy) == len(made.log_ratio) == 180
    assert not np.any(made.log_ratio[: made.decides[0] + 1])
    assert made.log_ratio[made.decides[0] + 1] == 1


def test_who_finds_what_decides():
  sure = retrying.recalls(0, 2.0, 60)
  blind = retrying.recalls(0, 0.0, 60)
  assert sure['APPO'] > sure['entropy alone'] > sure['anywhere']
  assert blind['APPO'] < blind['entropy alone'] + 0.1
