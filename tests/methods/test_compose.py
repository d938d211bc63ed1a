"""Composition: what is refused when a method is built, and what it reads."""

import functools

import pytest

from arl import columns as columns_lib
from arl import levels, methods
from arl.kernels import (
  advantages,
  aggregations,
  surrogates,
)
from arl.methods import binding, compose, grpo, terms

MEAN = aggregations.token_mean


def _term(*loss, name='mine', **fields):
  """A term of steps, whose last gives the loss."""
  steps = tuple((f'step_{i}', k) for i, k in enumerate(loss[:-1]))
  return compose.Term(name, (*steps, ('loss', loss[-1])), MEAN, **fields)


def _error(*parts, kind=ValueError):
  with pytest.raises(kind) as caught:
    compose.method(*parts)
  return str(caught.value)


# What is refused when a method is built.


def test_an_unbound_hyperparameter():
  part = grpo.dapo()._replace(surrogate=surrogates.clip)
  assert _error(part) == (
    "term 'policy': kernel 'clip' reads 'low', which is no column; to set it,"
    " bind it: partial(clip, low=...); did you mean 'loss'?"
  )


def test_an_unknown_column():
  assert _error(_term(lambda reflogp: reflogp)) == (
    "term 'mine': kernel '<lambda>' reads 'reflogp', which is no column; to"
    ' set it, bind it: partial(<lambda>, reflogp=...); did you mean'
    " 'ref_logp'?"
  )


@pytest.mark.parametrize('column', ['logp', 'entropy', 'value'])
def test_reading_the_policy_where_nothing_is_differentiated(column):
  kernel = binding.on(lambda logp: logp, logp=column)
  filled = columns_lib.filled_by(columns_lib.SCORE)
  assert {'old_logp', 'ref_logp', 'teacher_logp'} <= filled
  tail = (
    ', where nothing is differentiated and that column does not exist yet;'
    f' read a column of the policy that acted: {", ".join(sorted(filled))}.'
  )
  assert _error(grpo.dapo()._replace(advantage=kernel)) == (
    f"term 'policy': kernel '<lambda>' reads {column!r} in its credit{tail}"
  )
  assert _error(grpo.dapo()._replace(aggregate=kernel)) == (
    f"term 'policy': kernel '<lambda>' reads {column!r} in its aggregate{tail}"
  )


def test_reading_a_step_not_yet_made():
  assert _error(_term(lambda advantage: advantage)) == (
    "term 'mine': kernel '<lambda>' reads 'advantage' in its loss, where no"
    " earlier step gives it; add a step named 'advantage' before it."
  )


def test_an_aggregate_reads_no_step_of_the_loss():
  part = grpo.dapo()._replace(aggregate=lambda log_ratio: log_ratio)
  assert _error(part) == (
    "term 'policy': kernel '<lambda>' reads 'log_ratio' in its aggregate, where"
    " no earlier step gives it; add a step named 'log_ratio' before it."
  )


def test_names_that_are_taken():
  want = (
    'method(): the name {!r} is taken; rename the term:'
    ' term._replace(name=...).'
  )
  assert _error(grpo.grpo(), terms.kl(0.1)) == want.format('kl')
  assert _error(grpo.dapo(), grpo.dapo()) == want.format('policy')
  for name in ('metrics', 'total'):
    assert _error(terms.kl(0.1)._replace(name=name)) == want.format(name)


def test_a_last_step_that_gives_no_loss():
  for steps in ((), (('less', lambda logp: logp),)):
    assert _error(compose.Term('mine', steps, MEAN)) == (
      'term \'mine\': its last step must give "loss".'
    )


def test_no_part_and_a_wrong_part():
  assert _error() == 'method() has nothing to minimize: give it a term.'
  assert _error(surrogates.clip, kind=TypeError) == (
    'method() takes Term and Objective, not function.'
  )


def test_making_a_method_by_a_wrong_name():
  with pytest.raises(ValueError) as caught:
    methods.make('grpo.dap0')
  assert str(caught.value) == (
    "'grpo.dap0' names no function: write module.function of arl.methods, or a"
    " dotted path that can be imported; did you mean 'grpo.dapo'?"
  )


def test_making_a_method_with_a_wrong_hyperparameter():
  with pytest.raises(TypeError, match="unexpected keyword argument 'hgih'"):
    methods.make('grpo.dapo', hgih=0.3)


def test_make_passes_hyperparameters():
  made = methods.make('grpo.dapo', high=0.5)
  assert isinstance(made, compose.Objective)
  assert isinstance(made.surrogate, functools.partial)
  assert made.surrogate.keywords == {'low': 0.2, 'high': 0.5}


def test_a_lone_kernel_is_the_step_that_gives_the_advantage():
  kernel = advantages.group_center
  assert compose.steps(kernel) == (('advantage', kernel),)
  assert compose.steps((('a', kernel),)) == (('a', kernel),)


# Numbers bound to kernels.


@pytest.mark.parametrize(
  'part, message',
  [
    (
      grpo.dapo()._replace(
        surrogate=functools.partial(surrogates.clip, low=-0.1, high=0.2)
      ),
      "term 'policy': kernel 'clip': low is -0.1; it must be in [0, inf).",
    ),
    (
      grpo.dapo()._replace(
        aggregate=functools.partial(aggregations.constant, length=0)
      ),
      "term 'policy': kernel 'constant': length is 0; it must be in (0, inf).",
    ),
    (
      compose.only(
        grpo.dapo()._replace(
          aggregate=functools.partial(aggregations.constant, length=-1)
        ),
        lambda truncated: ~truncated,
      ),
      "term 'policy': kernel 'constant': length is -1; it must be in (0, inf).",
    ),
    (
      terms.critic(0.5, gamma=1.5, lam=1.0, clip=0.2),
      "term 'value': kernel 'lambda_return': gamma is 1.5; it must be in"
      ' [0, 1].',
    ),
  ],
)
def test_a_number_out_of_range(part, message):
  assert _error(part) == message


def test_a_number_of_another_type():
  part = grpo.dapo()._replace(
    surrogate=functools.partial(surrogates.clip, low='0.2', high=0.2)
  )
  assert _error(part, kind=TypeError) == (
    "term 'policy': kernel 'clip': low is '0.2'; it must be a number in"
    ' [0, inf).'
  )


def test_a_recipe_says_its_own_ranges():
  with pytest.raises(ValueError) as caught:
    methods.make('grpo.dapo', low=-1.2)
  assert str(caught.value).startswith('grpo.dapo: low is -1.2; it must be in')


# What a microbatch must keep whole.


def test_a_loss_that_pools_over_groups_keeps_them_whole():
  def by_group(logp, group, mask):
    return levels.mean(logp, group, mask)

  def by_sequence(logp, seq, turn, mask):
    return levels.mean(logp, seq, mask) + levels.mean(logp, turn, mask)

  assert compose.method(_term(by_group)).whole == {'group'}
  assert compose.method(_term(by_sequence)).whole == set()
  assert compose.method(grpo.dapo()).whole == set()
