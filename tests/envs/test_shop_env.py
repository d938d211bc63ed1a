"""The shop: its pages, its buttons, and what a purchase earns."""

import numpy as np
import pytest

from arl import episode
from arl.envs import base, shop, shop_catalogue, shop_goals

ENV = shop.make(options=2)
# For sale are, among 120: b16 soft plain lamp $48, gold or red, xl;
# b4 thin round lamp $16; b13 soft plain coat $36, blue, l.
TASK = episode.Task(
  'by hand',
  'buy soft lamp, gold, xl, max $50',
  {
    'shop': {
      'products': 120, 'options': 2, 'seed': 0, 'per_page': 2, 'pages': 2
    },
    'item': 'b16',
    'attributes': ['soft', 'plain'],
    'options': {'color': 'gold', 'size': 'xl'},
    'price': 50,
  },
)  # fmt: skip


def walk(*actions, task=TASK):
  state, turn = ENV.reset(task), None
  for action in actions:
    state, turn = ENV.step(state, action)
  return state, turn


def test_pages():
  pages = []
  state = ENV.reset(TASK)
  for action in ('search[soft plain lamp]', 'click[b16]', 'click[gold]',
                 'click[red]', 'click[xl]', 'click[back]', 'click[next]',
                 'click[back]'):  # fmt: skip
    state, turn = ENV.step(state, action)
    assert turn == episode.Turn(shop.render(state))
    pages.append(turn.text)
  assert pages == [
    'b16 soft plain lamp $48\nb76 round plain lamp $24\nnext back',
    'soft plain lamp $48\ncolor gold red\nsize xl\nbuy back',
    'soft plain lamp $48\ncolor *gold red\nsize xl\nbuy back',
    'soft plain lamp $48\ncolor gold *red\nsize xl\nbuy back',
    'soft plain lamp $48\ncolor gold *red\nsize *xl\nbuy back',
    'b16 soft plain lamp $48\nb76 round plain lamp $24\nnext back',
    pages[6],
    'search[words]',
  ]
  assert pages[6].endswith('\nback') and pages[6].count('lamp') == 2


SEARCH = 'search[soft plain lamp]'
OTHER = 'search[thin round lamp]'


@pytest.mark.parametrize(
  'actions, score',
  [
    # Asked for: two attributes, two options and the price make five.
    ((SEARCH, 'click[b16]', 'click[gold]', 'click[xl]'), 1.0),
    ((SEARCH, 'click[b16]', 'click[xl]', 'click[gold]'), 1.0),
    ((SEARCH, 'click[b16]', 'click[gold]'), 4 / 5),
    ((SEARCH, 'click[b16]', 'click[red]', 'click[xl]'), 4 / 5),
    ((SEARCH, 'click[b16]'), 3 / 5),
    ((OTHER, 'click[b4]'), 1 / 5),  # a lamp, and cheap enough
    ((OTHER, 'click[b4]', 'click[gold]'), 2 / 5),
    (('search[soft plain coat]', 'click[b13]'), 0.0),  # another kind
  ],
)
def test_scores(actions, score):
  _, turn = walk(*actions, 'click[buy]')
  assert turn == episode.Turn('', pytest.approx(score), True)


def test_what_costs_too_much_costs_its_part():
  task = TASK._replace(data={**TASK.data, 'price': 47})
  bought = SEARCH, 'click[b16]', 'click[gold]', 'click[xl]', 'click[buy]'
  assert walk(*bought, task=task)[1].reward == pytest.approx(4 / 5)
  assert shop_goals.best(task) != 'b16'


@pytest.mark.parametrize(
  'before, action, fault',
  [
    ((), 'buy', 'say search[words] or click[button]'),
    ((), 'click[buy', 'say search[words] or click[button]'),
    ((), 'click[[buy]]', 'say search[words] or click[button]'),
    ((), 'click[b16]', 'no button b16 here'),
    ((), 'click[buy]', 'no button buy here'),
    ((), 'click[]', 'no button  here'),
    ((), 'click[é\n' + 'x' * 99 + ']', 'no button ??xxxxxxxxxx here'),
    ((SEARCH,), 'search[lamp]', 'no search here; click[back]'),
    ((SEARCH,), 'click[buy]', 'no button buy here'),
    ((SEARCH,), 'click[b4]', 'no button b4 here'),
    ((SEARCH, 'click[b16]'), 'click[tan]', 'no button tan here'),
    ((SEARCH, 'click[b16]'), 'click[next]', 'no button next here'),
  ],
)
def test_faults(before, action, fault):
  state, _ = walk(*before)
  after, turn = ENV.step(state, action)
  assert turn == episode.Turn(f'error: {fault}')
  assert after == state._replace(turns=state.turns + 1)


def test_every_button_leads_somewhere():
  seen, queue = {}, [walk(SEARCH)[0], walk('search[]')[0]]
  for state in queue:
    for button in shop.buttons(state):
      after, turn = ENV.step(state, f'click[{button}]')
      assert not turn.text.startswith('error')
      if not turn.done and shop.render(after) not in seen:
        seen[shop.render(after)] = after
        queue.append(after)
  assert len(seen) > 20


def test_an_anchor_is_the_page_whatever_led_there():
  one, _ = walk(SEARCH, 'click[b16]', 'click[gold]', 'click[xl]')
  other, _ = walk(SEARCH, 'click[next]', 'click[back]', SEARCH, 'click[b16]',
                  'click[xl]', 'click[red]', 'hm', 'click[gold]')  # fmt: skip
  assert ENV.anchor(one) == ENV.anchor(other)
  assert one[2:] == other[2:]


def test_the_oracle_finds_its_way_back():
  for lost in (
    ('search[mug]',),
    (SEARCH, 'click[next]', 'click[back]', 'search[rope rope]'),
    (OTHER, 'click[b4]', 'click[gold]'),
    (SEARCH, 'click[b16]', 'click[red]'),
  ):
    state, turn = walk(*lost)
    for _ in range(8):
      state, turn = ENV.step(state, shop.oracle(state))
      if turn.done:
        break
    assert turn.reward == 1.0


def test_the_oracle_says_that_nothing_fits():
  task = TASK._replace(data={**TASK.data, 'price': 1})
  with pytest.raises(ValueError, match='no item that is found fits'):
    shop.oracle(ENV.reset(task))


def test_tasks():
  prompts = {}
  for split in base.SPLITS:
    tasks = [ENV.task(split, index) for index in range(500)]
    prompts[split] = {task.prompt for task in tasks}
    for task in tasks:
      best = shop_goals.target(task)
      item = shop_goals.catalogue(task).items[best]
      assert item.product.price <= task.data['price']
      assert set(task.data['attributes']) <= set(item.product.attributes)
  assert not prompts[base.TRAIN] & prompts[base.HELD_OUT]
  assert len(prompts[base.TRAIN]) > 300


@pytest.mark.parametrize('products, options', [(60, 1), (1000, 2)])
def test_catalogues(products, options):
  made = shop_catalogue.make(products, options, 0)
  assert len(made.items) == products
  for item in made.items.values():
    assert tuple(item.options) == shop_catalogue.OPTIONS[:options]
    assert item.title == ' '.join([*item.product.attributes, item.product.name])
    values = [v for each in item.options.values() for v in each]
    assert len(set(values)) == len(values)
    assert not {'buy', 'back', 'next'} & set(values)
  assert made.items != shop_catalogue.make(products, options, 1).items


def test_the_demonstrator_is_fallible():
  env, rng = shop.make(), np.random.default_rng(0)
  rewards = [
    base.play(env, env.task(base.TRAIN, i), lambda s: env.noisy(s, rng), 6)[
      -1
    ].turn.reward
    for i in range(600)
  ]
  assert 0.6 < np.mean(rewards) < 0.8
