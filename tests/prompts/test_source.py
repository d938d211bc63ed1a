"""Streams of tasks: pure, without repetition, with a position."""

import hypothesis
import hypothesis.strategies as st
import pytest

from arl import episode
from arl.prompts import source


def task(index):
  return episode.Task(str(index), f'prompt {index}', {})


def stream(size, batch, seed=0):
  tasks = source.shuffled(task, size=size, batch=batch, seed=seed)
  return lambda step: [int(t.id) for t in tasks(step)]


SIZES = st.integers(1, 30).flatmap(
  lambda size: st.tuples(st.just(size), st.integers(1, size))
)


@hypothesis.given(SIZES, st.integers(0, 3))
def test_an_epoch_meets_no_task_twice(sizes, seed):
  size, batch = sizes
  at, steps = stream(size, batch, seed), size // batch
  for epoch in range(3):
    met = [i for s in range(steps) for i in at(epoch * steps + s)]
    assert len(met) == len(set(met)) == steps * batch
    assert set(met) <= set(range(size))


@hypothesis.given(SIZES, st.integers(0, 200))
def test_a_step_is_the_same_wherever_one_starts(sizes, step):
  at = stream(*sizes)
  for before in range(max(0, step - 3), step):
    at(before)
  assert at(step) == stream(*sizes)(step) == at(step)


def test_orders_differ():
  one, other = stream(50, 50), stream(50, 50, seed=1)
  orders = {tuple(at(step)) for at in (one, other) for step in range(3)}
  assert len(orders) == 6
  assert all(sorted(order) == list(range(50)) for order in orders)


def test_every_task_is_met_in_time():
  at = stream(7, 3)  # one waits in every epoch, another one each time
  assert {i for step in range(20) for i in at(step)} == set(range(7))


@pytest.mark.parametrize('size, batch', [(5, 6), (5, 0), (0, 1)])
def test_errors(size, batch):
  message = f'a batch of {batch} tasks from {size}; set prompts.batch to 1 to'
  with pytest.raises(ValueError, match=message):
    stream(size, batch)
