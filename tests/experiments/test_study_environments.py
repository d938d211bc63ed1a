"""The study of environments: what it counts, on a few tasks of each."""

import pytest

from arl.sandbox import base as sandbox
from experiments.studies import environments


@pytest.mark.parametrize('case', environments.CASES, ids=lambda case: case.name)
def test_oracles_earn_what_is_said(case):
  try:
    seen = environments.measure(case, 4)
  except (sandbox.Refused, ImportError) as error:
    pytest.skip(str(error))
  assert {len(earned) for earned in seen.earned.values()} == {4}
  if case.worth == 1.0:
    assert seen.earned['oracle'] == [1.0] * 4
  assert min(seen.tasks, seen.episodes, seen.steps, seen.replayed) > 0
  assert seen.longest > 10


def test_characters_count_an_end_of_each_text():
  case = environments.CASES[0]
  env = case.make()
  task = env.task('train', 0)
  exchanges = environments.base.play(env, task, env.oracle, case.turns)
  texts = [
    task.prompt,
    *(t for e in exchanges for t in (e.action, e.turn.text)),
  ]
  assert environments._characters(task, exchanges) == len(''.join(texts)) + 5


def test_names_are_distinct():
  names = [case.name for case in environments.CASES]
  assert len(set(names)) == len(names)
