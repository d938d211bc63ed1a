"""Terms that ride along with an objective, or stand alone."""

import functools

from arl import types
from arl.kernels import aggregations, critics, divergences, returns
from arl.methods import binding, compose


def kl(
  coef: float,
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


def entropy(
  coef: float, aggregate: types.Kernel = aggregations.token_mean
) -> compose.Term:
  """A bonus of coef * entropy of the policy at each token it chose."""
  return compose.Term(
    'entropy', (('loss', lambda entropy: -entropy),), aggregate, coef=coef
  )


def critic(coef: float, gamma: float, lam: float, clip: float) -> compose.Term:
  """The clipped squared error of the value to the lambda-return."""
  target = functools.partial(returns.lambda_return, gamma=gamma, lam=lam)
  return compose.Term(
    'value',
    (('loss', functools.partial(critics.value_clip, clip=clip)),),
    aggregations.token_mean,
    credit=(('returns', target),),
    coef=coef,
  )


def imitation(
  coef: float = 1.0, aggregate: types.Kernel = aggregations.token_mean
) -> compose.Term:
  """coef * negative log-likelihood of the tokens on the mask: masked SFT."""
  return compose.Term(
    'imitation', (('loss', lambda logp: -logp),), aggregate, coef=coef
  )
