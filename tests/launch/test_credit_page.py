"""Two methods on the same episodes, side by side."""

import re

import numpy as np
import pytest
import tiny

from arl import episode
from launch import credit


@pytest.fixture(scope='module')
def model(tmp_path_factory, compiled_once):
  del compiled_once
  return tiny.write_model(tmp_path_factory.mktemp('models') / 'tiny')


def configs(model, name, **numbers):
  first, second = tiny.config(model, steps=1), tiny.config(model, steps=1)
  second.method = {'name': name, **numbers}
  return first, second


def credits(html):
  """Of each article the advantages of its tokens, as they are shown."""
  return [
    [float(x) for x in re.findall(r'advantage ([-+.e\d]+)"', part)]
    for part in html.split('<article>')[1:]
  ]


def test_both_methods_credit_the_same_episodes(model):
  html = credit.compare(*configs(model, 'grpo.dr_grpo', length=8))
  shown = credits(html)
  assert len(shown) >= 4 and not len(shown) % 2
  ours, theirs = shown[::2], shown[1::2]
  assert [len(x) for x in ours] == [len(x) for x in theirs]
  # One divides by a deviation and the other does not: the signs agree.
  for one, other in zip(ours, theirs):
    np.testing.assert_array_equal(np.sign(one), np.sign(other))
  assert any(one != other for one, other in zip(ours, theirs))
  assert 'largest advantage of grpo.dr_grpo' in html


def test_a_method_that_reads_what_is_not_there_is_refused(model):
  with pytest.raises(ValueError, match="'turn_value'.*vine.nine"):
    credit.compare(*configs(model, 'critics.vineppo'))


def test_of_each_task_one_of_each_outcome():
  def one(name, reward):
    return episode.Episode(
      task=episode.Task(name, '', {}),
      sample=0,
      tokens=np.zeros(2, np.int32),
      mask=np.ones(2, bool),
      logp=np.zeros(2, np.float32),
      rewards=np.array([0, reward], np.float32),
      turn=np.zeros(2, np.int32),
      status=episode.FINISHED,
      exchanges=(),
    )

  given = [one('a', 0), one('a', 1), one('a', 0), one('b', 1), one('b', 1)]
  assert credit.unlike(given) == [0, 1, 3]
