import pytest
import tiny

from arl.rollout import answers, strategies
from arl.train import checks


def test_a_strategy_whose_question_the_environment_cannot_answer():
  env = tiny.letters()._replace(answer=None)
  with pytest.raises(ValueError) as error:
    checks.check_strategy(answers.with_reference, env, 'answers.with_reference')
  assert str(error.value) == (
    "answers.with_reference asks the environment for 'answer', which it does"
    ' not have; choose another config.rollout.strategy or config.env.'
  )
  checks.check_strategy(strategies.multi_turn, env, 'strategies.multi_turn')
  able = env._replace(answer=lambda task: 'a')
  checks.check_strategy(answers.with_reference, able, 'answers.with_reference')
