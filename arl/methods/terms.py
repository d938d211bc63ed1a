"""Terms that ride along with an objective, or stand alone."""

import functools

from arl import ranges, types
from arl.kernels import (
  aggregations,
  critics,
  divergences,
  regressions,
  returns,
)
from arl.methods import binding, compose


def kl(
  coef: ranges.NonNegative,
  kernel: types.Kernel = divergences.k3,
  to: str = 'ref_logp',
  aggregate: types.Kernel = aggregations.token_mean,
) -> compose.Term:
  """coef * KL(policy || the policy of column `to`), by a sampled estimator.

  `arl.kernels.divergences` says what the gradient of each estimator is.
  """
  return compose.Term(
    'kl', (('loss', binding.on(kernel, ref_logp=to)),), aggregate, coef=coef
  )


def adaptive_kl(
  kernel: types.Kernel = divergences.k2,
  aggregate: types.Kernel = aggregations.token_mean,
) -> compose.Term:
  """The KL to the reference, times the knob `kl_coef`.

  The knob that holds the KL near a target is `knobs.adaptive_kl` (Ziegler et
  al., arXiv:1909.08593, 2.2). Status: published, verl's code read.
  """

  def scale(divergence, kl_coef):
    return kl_coef * divergence

  steps = (('divergence', kernel), ('loss', scale))
  return compose.Term('kl', steps, aggregate)


def entropy(
  coef: ranges.Finite, aggregate: types.Kernel = aggregations.token_mean
) -> compose.Term:
  """A bonus of coef * entropy of the policy at each token it chose."""
  return compose.Term(
    'entropy', (('loss', lambda entropy: -entropy),), aggregate, coef=coef
  )


def value(
  kernel: types.Kernel,
  coef: ranges.NonNegative,
  *,
  credit: types.Steps,
  before: types.Steps = (),
) -> compose.Term:
  """coef * the loss of a critic; its metric is the variance it explains.

  Args:
    kernel: gives the loss.
    coef: of the term.
    credit: steps that give `returns`, and `old_value` where it has to be made
      of something else; `kept`, if the critic is of some tokens only.
    before: steps of the loss that come before the kernel.
  """
  some = 'kept' in dict(credit)
  explained = critics.explained_where if some else critics.explained
  return compose.Term(
    'value',
    (*before, ('loss', kernel)),
    aggregations.token_mean,
    credit=(*credit, ('explained', explained)),
    coef=coef,
    monitors=(('explained', lambda explained: explained),),
  )


def critic(
  coef: ranges.NonNegative,
  gamma: ranges.Fraction,
  lam: ranges.Fraction,
  clip: ranges.Positive,
) -> compose.Term:
  """The clipped squared error of the value to the lambda-return."""
  target = functools.partial(returns.lambda_return, gamma=gamma, lam=lam)
  loss = functools.partial(critics.value_clip, clip=clip)
  return value(loss, coef, credit=(('returns', target),))


def imitation(
  coef: ranges.NonNegative = 1.0,
  aggregate: types.Kernel = aggregations.token_mean,
) -> compose.Term:
  """coef * negative log-likelihood of the tokens on the mask: masked SFT.

  Status: standard.
  """
  return compose.Term(
    'imitation', (('loss', lambda logp: -logp),), aggregate, coef=coef
  )


def positive(coef: ranges.NonNegative) -> compose.Term:
  """`imitation` of the correct samples alone, those with R > 0 (VAPO)."""
  mean = compose.on_kept(aggregations.token_mean)
  kept = (('kept', regressions.correct),)
  return imitation(coef, mean)._replace(name='positive', credit=kept)


def demonstrated(coef: ranges.NonNegative) -> compose.Term:
  """`imitation` of the demonstrations alone, mixed in with the samples."""
  mean = compose.on_kept(aggregations.token_mean)
  kept = (('kept', lambda demonstrated: demonstrated),)
  return imitation(coef, mean)._replace(name='demonstrated', credit=kept)
