"""The retail desk: its user, its tools, its policy, and what is graded."""

import json

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from arl import episode
from arl.envs import base, calls, retail, retail_data, retail_policy

ENV = retail.make()
DATABASE = {
  'users': {'u1': ['o1', 'o2'], 'u2': ['o3']},
  'orders': {
    'o1': {'user': 'u1', 'status': 'pending', 'zip': '123', 'items': ['i1']},
    'o2': {'user': 'u1', 'status': 'delivered', 'zip': '123', 'items': ['i4']},
    'o3': {'user': 'u2', 'status': 'pending', 'zip': '456', 'items': ['i1']},
  },
  'items': {
    'i1': ['mug', 'red', True],
    'i2': ['mug', 'blue', True],
    'i3': ['cap', 'blue', True],
    'i4': ['cap', 'red', False],
    'i5': ['cap', 'gold', False],
  },
}


def task(prompt, *wanted):
  data = {'database': DATABASE, 'user': 'u1', 'wanted': list(wanted)}
  return episode.Task('by hand', prompt, data)


CANCEL = task('cancel my mug', 'cancel', 'o1')
SWAP = task('swap my cap for blue', 'exchange', 'o2', 'i4', 'i3')
BARRED = task('cancel my cap', 'cancel', 'o2')
GREET = ('who are you?', 'get_user(u1)')


def walk(task, *actions):
  state, turn = ENV.reset(task), None
  for action in actions:
    state, turn = ENV.step(state, action)
  return state, turn


def test_an_episode():
  actions = (
    'who are you?', 'get_user(u1)', 'get_order(o2)', 'get_product(cap)',
    'exchange o2 i4 i3?', 'exchange(o2,i4,i3)', 'bye',
  )  # fmt: skip
  state, seen = ENV.reset(SWAP), []
  for action in actions:
    state, turn = ENV.step(state, action)
    seen.append(turn)
  assert [turn.text for turn in seen] == [
    'i am u1', 'o1 o2', 'delivered 123: i4 red cap',
    'i3 blue, i4 red out, i5 gold out', 'yes', 'ok', '',
  ]  # fmt: skip
  assert seen[-1] == episode.Turn('', 1.0, True)
  assert state.broken == ()
  after = retail_data.written(DATABASE, state.writes)
  assert after['orders']['o2']['items'] == ['i3']


AGREED = (*GREET, 'cancel o1?')


@pytest.mark.parametrize(
  'asked, actions, reward, broken',
  [
    (CANCEL, (*AGREED, 'cancel(o1)', 'bye'), 1.0, ()),
    (CANCEL, (*AGREED, 'Cancel o1?', 'cancel(o1)', 'done no?'), 1.0, ()),
    (CANCEL, (*GREET, 'Shall I cancel order o1?', 'cancel(o1)', 'bye'), 1, ()),
    (CANCEL, (*GREET, 'cancel o2?', *AGREED[2:], 'cancel(o1)', 'bye'), 1, ()),
    (BARRED, (*GREET, 'get_order(o2)', 'no', 'sorry, I cannot'), 1.0, ()),
    (BARRED, ('hi', 'no', 'no'), 0.0, ('refused before',)),
    (BARRED, (*GREET, 'get_order(o1)', 'no', 'no'), 0.0, ('refused before',)),
    # Nothing done, and the user sent away.
    (CANCEL, (*GREET, 'get_order(o1)', 'no', 'no'), 0.0, ()),
    # Done, and not agreed on.
    (CANCEL, (*GREET, 'cancel(o1)', 'bye'), 0.0, ('cancel that was not',)),
    # Agreed on after it was done, and done again.
    (
      CANCEL,
      (*GREET, 'cancel(o1)', 'cancel o1?', 'bye'),
      0.0,
      ('cancel that was not',),
    ),
    # Agreed on something else.
    (
      CANCEL,
      (*AGREED, 'cancel(o2)', 'bye'),
      0.0,
      ('cancel that was not',),
    ),
    # The right write, and one more; whatever is said after.
    (
      CANCEL,
      (*AGREED, 'cancel(o1)', 'set_zip(o1,999)', 'set_zip(o1,123)', 'bye'),
      0.0,
      ('set_zip that', 'set_zip that'),
    ),
    # Twice.
    (
      CANCEL,
      (*AGREED, 'cancel(o1)', 'cancel(o1)', 'bye'),
      0.0,
      ('cancel of an order that is cancelled',),
    ),
    # Agreed on, and against the policy.
    (
      BARRED,
      (*GREET, 'cancel o2?', 'cancel(o2)', 'bye'),
      0.0,
      ('cancel of an order that is delivered',),
    ),
    # The user was not asked, or not looked up, or is another.
    (
      CANCEL,
      ('get_user(u1)', *AGREED, 'cancel(o1)', 'bye'),
      0.0,
      ('looked up a user',),
    ),
    (
      CANCEL,
      ('hi', 'get_user(u2)', *AGREED[1:], 'cancel(o1)', 'bye'),
      0.0,
      ('looked up a user',),
    ),
    (
      CANCEL,
      ('hi', 'cancel o1?', 'cancel(o1)', 'bye'),
      0.0,
      ('cancel before',),
    ),
    (
      CANCEL,
      ('hi', 'get_product(cap)', *AGREED[1:], 'cancel(o1)', 'bye'),
      0.0,
      ('get_product before',),
    ),
    (
      CANCEL,
      (*GREET, 'get_order(o3)', 'cancel o1?', 'cancel(o1)', 'bye'),
      0.0,
      ('the order of another',),
    ),
  ],
)
def test_grades(asked, actions, reward, broken):
  state, turn = walk(asked, *actions)
  assert (turn.reward, turn.done) == (reward, True)
  assert len(state.broken) == len(broken)
  assert all(a.startswith(b) for a, b in zip(state.broken, broken))


@pytest.mark.parametrize(
  'said, answer',
  [
    ('exchange o2 i4 i3?', 'yes'),
    ('May I exchange i4 of o2 for i3?', 'yes'),
    ('exchange o2 i4 i3', SWAP.prompt),  # no question
    ('exchange o2 i4?', f'no, {SWAP.prompt}'),
    ('exchange o2 i4 i3 i5?', f'no, {SWAP.prompt}'),
    ('exchange or cancel o2 i4 i3?', f'no, {SWAP.prompt}'),
    ('exchange o1 o2 i4 i3?', f'no, {SWAP.prompt}'),
    ('return_item o2 i4?', f'no, {SWAP.prompt}'),
    ('ok?', SWAP.prompt),
    ('no', f'please {SWAP.prompt}'),
    ('nothing', SWAP.prompt),
  ],
)
def test_what_the_user_answers(said, answer):
  state, turn = walk(SWAP, 'hi', said)
  assert turn.text == answer
  assert state.agreed == (answer == 'yes')


def test_the_user_tells_who_they_are_first():
  assert walk(CANCEL, 'cancel o1?')[1].text == 'i am u1'
  assert not walk(CANCEL, 'cancel o1?')[0].agreed


@pytest.mark.parametrize(
  'action, seen',
  [
    ('get_user(u9)', 'error: no user u9'),
    ('get_order(o9)', 'error: no order o9'),
    ('get_order(' + 'é' * 99 + ')', 'error: no order ????????????'),
    ('get_product(car)', 'error: no product car'),
    ('cancel(o9)', 'error: no order o9'),
    ('return_item(o1,i9)', 'error: no item i9 in o1'),
    ('return_item(o1)',
     "error: return_item: 'item' is a required property"),
    ('exchange(o1,i1,i9)', 'error: no item i9'),
    ('exchange(o1,i2,i1)', 'error: no item i2 in o1'),
    ('set_zip(o1,12)', 'error: a zip has three digits'),
    ('set_zip(o1,١٢٣)', 'error: a zip has three digits'),
    ('pay(o1)', 'error: no such tool'),
    ('cancel(o1,o2)', 'error: use cancel(order)'),
    ('I will cancel(o1)', 'error: no such tool'),
    ('cancel(o1', 'error: use name(arguments)'),
    ('x' * 201, 'error: say something of 1 to 200 letters, or call a tool'),
  ],
)  # fmt: skip
def test_faults_break_nothing(action, seen):
  state, _ = walk(CANCEL, *GREET)
  after, turn = ENV.step(state, action)
  assert turn == episode.Turn(seen) and len(seen) < 80
  assert after == state._replace(turns=3, last=seen)


def test_writes_leave_the_database_of_the_task_alone():
  before = json.dumps(DATABASE)
  made = retail_data.written(
    DATABASE,
    [('cancel', 'o1'), ('set_zip', 'o1', '777'), ('return_item', 'o2', 'i4')],
  )
  assert json.dumps(DATABASE) == before
  assert made['orders']['o1']['status'] == 'cancelled'
  assert made['orders']['o1']['zip'] == '777'
  assert made['orders']['o2'] == {
    **DATABASE['orders']['o2'], 'items': [], 'returned': ['i4']
  }  # fmt: skip


@pytest.mark.parametrize(
  'call, reason',
  [
    (('exchange', 'o2', 'i4', 'i3'), ''),
    (('exchange', 'o2', 'i4', 'i2'), 'an exchange for another product'),
    (('exchange', 'o2', 'i4', 'i5'), 'an exchange for another product, or'),
    (('exchange', 'o1', 'i1', 'i2'), 'exchange of an order that is pending'),
    (('set_zip', 'o1', '999'), ''),
    (('set_zip', 'o2', '999'), 'set_zip of an order that is delivered'),
    (('return_item', 'o2', 'i4'), ''),
    (('cancel', 'o3'), 'the order of another user'),
  ],
)
def test_what_the_policy_forbids(call, reason):
  found = retail_policy.forbidden(DATABASE, 'u1', call)
  assert found.startswith(reason) and bool(found) == bool(reason)


SAID = st.sampled_from(
  ['bye', 'no', 'all is done', 'i made a mistake, sorry', 'cancel o1?', 'yes',
   'get_order(o1)', 'get_user(u1)', 'set_zip(o1,123)', 'cancel(o1)', '']
)  # fmt: skip


@hypothesis.given(st.lists(SAID, max_size=12))
def test_a_wrong_write_cannot_be_made_good(actions):
  """Nothing said or done after a write that was not agreed on earns again."""
  state, turn = walk(CANCEL, *GREET, 'set_zip(o1,999)')
  for action in [*actions, 'bye', 'bye']:
    state, turn = ENV.step(state, action)
    assert turn.reward == 0.0
    if turn.done:
      return
  raise AssertionError('the user never left')


def test_what_is_asked_for_and_what_is_forbidden():
  tasks = [ENV.task(base.TRAIN, index) for index in range(800)]
  tools = [task.data['wanted'][0] for task in tasks]
  for tool in retail_policy.WRITES:
    assert tools.count(tool) / 800 == pytest.approx(0.25, abs=0.05)
  barred = [not retail_policy.gold(task) for task in tasks]
  assert np.mean(barred) == pytest.approx(0.25, abs=0.05)
  for each in tasks:
    database, wanted = each.data['database'], each.data['wanted']
    assert retail_data.fault(database, wanted) == ''
    assert retail_data.written(database, [wanted]) != database
    mine = database['users'][each.data['user']]
    named = [database['items'][i][0] for o in mine
             for i in database['orders'][o]['items']]  # fmt: skip
    assert len(set(named)) == len(named)


def test_tools_can_be_shown_and_called():
  for tool in ENV.tools:
    arguments = dict.fromkeys(tool.parameters['properties'], 'o1')
    call = calls.Call(tool.name, arguments)
    assert calls.check(call, ENV.tools) == call
    assert f'{tool.name}(' in retail_policy.POLICY


def test_the_demonstrator_is_fallible():
  rng = np.random.default_rng(0)
  rewards = [
    base.play(ENV, ENV.task(base.TRAIN, i), lambda s: ENV.noisy(s, rng), 10)[
      -1
    ].turn.reward
    for i in range(600)
  ]
  assert 0.4 < np.mean(rewards) < 0.7
