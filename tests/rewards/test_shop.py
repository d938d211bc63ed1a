"""Purchases: kind, attributes, options and price."""

import pytest

from arl.rewards import shop

SHIRT = shop.Product(
  'Mens Cotton Shirt',
  ('clothing', 'men', 'shirts'),
  'mens shirt',
  ('machine wash', 'cotton'),
  'A soft shirt with long sleeve.',
  25.0,
)
GOAL = shop.Goal(
  SHIRT,
  ('machine wash', 'long sleeve'),
  {'color': 'dark blue', 'size': 'm'},
  30,
)
CHOSEN = {'color': 'dark blue', 'size': 'm'}


def _buy(chosen=CHOSEN, goal=GOAL, **changes):
  return shop.web_shop(SHIRT._replace(**changes), chosen, goal)


def test_what_was_asked_for_is_1():
  assert _buy() == 1


@pytest.mark.parametrize(
  'chosen, changes, wanted',
  [
    (CHOSEN, {'price': 30.01}, 4 / 5),
    ({}, {}, 3 / 5),
    ({**CHOSEN, 'size': 'xl'}, {}, 4 / 5),
    ({**CHOSEN, 'size': 'M'}, {}, 1),
    ({**CHOSEN, 'color': 'blue dark'}, {}, 1),
    ({**CHOSEN, 'color': 'red'}, {}, 4 / 5),
    (CHOSEN, {'attributes': (), 'text': ''}, 3 / 5),
    (CHOSEN, {'name': 'Laptop', 'query': 'laptop', 'category': ()}, 0),
  ],
)
def test_parts_of_it(chosen, changes, wanted):
  assert _buy(chosen, **changes) == pytest.approx(wanted)


def test_more_options_than_asked_for_do_not_pay():
  goal = GOAL._replace(options={'color': 'blue'})
  assert _buy({'a': 'blue', 'b': 'blue', 'c': 'blue'}, goal) == 1


def test_any_price():
  assert _buy(goal=GOAL._replace(price=None), price=1e9) == 1


WIDE = 'one two three four five six seven eight nine ten eleven twelve'


@pytest.mark.parametrize(
  'name, query, category, wanted',
  [
    (WIDE, 'q', (), 1),
    ('one', 'q', ('clothing', 'men'), 0.1),  # a twelfth
    ('one two', 'q', (), 0.5),  # a sixth
    ('one two', 'goal', (), 1),
    ('one two', 'q', ('clothing', 'men'), 1),
    ('one two three', 'q', (), 1),
    ('zero', 'goal', ('clothing', 'men'), 0),
  ],
)
def test_kind(name, query, category, wanted):
  product = SHIRT._replace(name=WIDE, query='goal')
  goal = GOAL._replace(product=product)
  bought = SHIRT._replace(name=name, query=query, category=category)
  assert shop.kind(bought, goal) == wanted


@pytest.mark.parametrize(
  'ours, theirs, alike',
  [
    ('dark blue', 'blue', True),
    ('blue, dark', 'dark blue', True),
    ('blue', 'red', False),
    ('', 'red', False),
    ('', '', False),
    ('navy blue', 'royal blue', False),
  ],
)
def test_alike(ours, theirs, alike):
  assert (shop.alike(ours, theirs) > 0.85) is alike
