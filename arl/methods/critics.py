"""Critics by themselves, of classes, and of fresh rollouts in place of one."""

import functools

from arl import methods, ranges
from arl.kernels import (
  advantages,
  aggregations,
  corrections,
  credit,
  critics,
  surrogates,
)
from arl.methods import binding, compose, terms


def alone(*, base: methods.Base = 'ppo.vapo') -> compose.Term:
  """The critic of a recipe and nothing else: pretraining its values.

  VAPO (arXiv:2504.05118) learns values of the policy that it starts from,
  before it moves: with config.model.critic = 'own' the policy stays, and the
  run's `final` is the critic of another that has it as config.model.critic.
  Enough is when `value/explained` no longer rises. The targets are the
  recipe's: Monte-Carlo returns of `ppo.vc_ppo`, `ppo.vapo`, `ppo.categorical`
  and `ppo.bpco`. Status: published.
  """
  for term in methods.objective(base).terms:
    if term.name == 'value':
      return term._replace(coef=1.0)
  raise ValueError(f'critics.alone: {base!r} has no critic.')


def vineppo(
  *, clip: ranges.Positive = 0.2, kl_coef: ranges.NonNegative = 1e-4
) -> compose.Objective:
  """VinePPO (Kazemnejad et al., arXiv:2410.01679): no critic but rollouts.

  The value of the state that a turn begins in is the mean return of fresh
  rollouts from it, the column `turn_value`; a turn's advantage is its reward,
  plus the value after it, less the value before it. A survey has Q values; they
  are values of states. `vine.nine` is the paper's strategy. Status: published,
  official code read.
  """
  estimate = functools.partial(credit.turn_gae, gamma=1.0, lam=0.0)
  return compose.Objective(
    advantage=binding.on(estimate, old_value='turn_value'),
    surrogate=functools.partial(surrogates.clip, low=clip, high=clip),
    aggregate=aggregations.token_mean,
    terms=(terms.kl(kl_coef),) if kl_coef else (),
  )


def coderl(
  *,
  outcomes: tuple[float, ...] = (-1.0, -0.6, -0.3, 1.0),
  value_coef: ranges.NonNegative = 1.0,
) -> compose.Objective:
  """CodeRL (Le et al., arXiv:2207.01780): a critic that foretells the outcome.

  The critic tells which of the outcomes, by what they earn, a program will
  have; a token counts by its chance of the one that came. The return is less
  that of the greedy program: the strategy is `greedy.with_baseline`, and
  config.model.value_bins the number of outcomes. Ours: the critic is trained
  before each token, where the paper pools over all states of a program. Left
  out: the alternation with imitation, which is `terms.demonstrated`. Status:
  published, official code read.
  """
  label = functools.partial(critics.nearest_outcome, outcomes=outcomes)
  critic = compose.Term(
    'value',
    (('loss', critics.outcome_loss),),
    aggregations.token_mean,
    credit=(('label', label),),
    coef=value_coef,
    monitors=(('chance', _chance),),
  )
  return compose.Objective(
    advantage=(
      ('label', label),
      ('factor', critics.outcome_chance),
      ('advantage', advantages.greedy_baseline),
    ),
    surrogate=surrogates.reinforce,
    corrections=(corrections.credited,),
    aggregate=aggregations.token_mean,
    terms=(critic,),
  )


_chance = binding.on(critics.outcome_chance, old_value_logits='value_logits')
