"""Distillation over many tokens: distributions drawn to a teacher's."""

import functools

from arl import ranges, types
from arl.kernels import aggregations, candidates, distillation, surrogates
from arl.methods import binding, compose, grpo
from arl.methods import distillation as sampled

_OWN = {'top_logp': 'own_logp', 'teacher_top_logp': 'teacher_own_logp'}
_TURN_MEAN = binding.on(aggregations.sequence_mean, seq='turn')


def _matched(
  loss: types.Kernel, aggregate: types.Kernel = aggregations.token_mean
) -> compose.Term:
  return compose.Term(
    'matched', (('loss', loss),), aggregate, monitors=sampled.MONITORS
  )


def opd_full() -> compose.Term:
  """On-policy distillation over the whole vocabulary (arXiv:2306.13649).

  The reverse KL of the next token, differentiated, in the prefixes that the
  policy wrote: what `distillation.opd` estimates, without its variance. Needs
  the teacher in process. Status: published, official code (TRL) read.
  """
  return _matched(lambda reverse_kl: reverse_kl)


def opd_top(*, k: ranges.Count = 16) -> compose.Term:
  """The reverse KL within the policy's k likeliest tokens, renormalized.

  One of the forms of "Rethinking OPD" (arXiv:2604.13016); the tokens are those
  of the policy when the batch began. Left out: those that both or either of the
  two find likeliest. Status: official code read.
  """
  within = functools.partial(candidates.reverse_kl_renormalized, k=k)
  return _matched(binding.on(within, **_OWN))


def opd_tail(*, k: ranges.Count = 16) -> compose.Term:
  """`opd_top`, all other tokens counting as one more outcome.

  Status: official code read.
  """
  closed = functools.partial(candidates.reverse_kl, k=k)
  return _matched(binding.on(closed, **_OWN))


def opd_candidates(
  *, k: ranges.Count = 16, clip: ranges.Positive = 0.2
) -> compose.Term:
  """ "Rethinking OPD" (arXiv:2604.13016): each candidate an action of PPO.

  Its advantage is log(teacher / policy) times its share; clipped one by one and
  added up. Status: official code (thunlp/OPD) read.
  """
  return _matched(
    functools.partial(candidates.rewarded, k=k, low=clip, high=clip)
  )


def gkd(*, beta: ranges.Fraction = 0.5, k: ranges.Count = 64) -> compose.Term:
  """Generalized knowledge distillation (arXiv:2306.13649): beta-JSD.

  Over the teacher's k likeliest tokens and a tail; 0 is the forward and 1 the
  reverse KL. Of its sequences the paper has a share lambda written by the
  student, 0.5 by default, and the rest given: that is the strategy's choice, 1
  with `strategies.multi_turn`, 0 with `demonstrations.noisy` and 0.5 with
  `demonstrations.beside` and two samples a task, in every batch where the paper
  draws a coin for it. Status: official code (TRL) read.
  """
  return _matched(functools.partial(candidates.jsd, beta=beta, k=k))


def gkd_full() -> compose.Term:
  """`gkd` of beta = 1/2 over the whole vocabulary.

  Needs the teacher in process. Status: official code (TRL) read.
  """
  return _matched(lambda jsd: jsd)


def kd_full() -> compose.Term:
  """The forward KL over the whole vocabulary: `gkd` of beta = 0.

  On what the teacher wrote this is distillation as it was before (Hinton et
  al., 2015). Needs the teacher in process. Status: standard.
  """
  return _matched(lambda forward_kl: forward_kl)


def opad() -> compose.Term:
  """OPAD in MAD-OPD (arXiv:2605.01347), one teacher: `gkd_full` by turns.

  Each turn is a sample of its own and weighs the same. Left out: teachers that
  debate, whose weights are `candidates.debated`, and turns written after a
  history of the data. Status: official code read.
  """
  return _matched(lambda jsd: jsd, _TURN_MEAN)


def neohorse(*, k: ranges.Count = 64) -> compose.Term:
  """NeoHorse-1's distillation (arXiv:2609.08183): `opd_tail` by responses.

  Each response weighs the same. Neither k nor the teacher is public; ours.
  Left out: the order of its supervised stages. Status: published, details from
  summaries.
  """
  return opd_tail(k=k)._replace(aggregate=aggregations.sequence_mean)


def tropd(*, k: ranges.Count = 64) -> compose.Objective:
  """Trust-region OPD (arXiv:2606.01249): two forms, by a coin a token.

  With the probability min(teacher / policy, 1) a token is inside and has the
  advantage of `distillation.opd`; outside it is drawn to the teacher's k
  likeliest tokens. Left out: prefixes of the teacher, and the variants that
  drop or clip what is outside. Status: published, details from summaries.
  """

  def only_inside(advantage, inside):
    return inside * advantage

  def only_outside(divergence, inside):
    return (1 - inside) * divergence

  coin = ('inside', distillation.trusted)
  drawn = functools.partial(candidates.forward_kl_partial, k=k)
  outside = compose.Term(
    'outside',
    (('divergence', drawn), ('loss', only_outside)),
    aggregations.token_mean,
    credit=(coin,),
  )
  told = ('advantage', distillation.reverse_kl)
  return grpo.dapo()._replace(
    advantage=(coin, told, ('advantage', only_inside)),
    surrogate=surrogates.importance,
    terms=(outside,),
    monitors=(*compose.MONITORS, *sampled.MONITORS),
  )


def eopd(
  *,
  tau: ranges.NonNegative = 0.8,
  k: ranges.Count = 16,
  clip: ranges.Positive = 0.2,
) -> compose.Objective:
  """Entropy-aware OPD (arXiv:2603.07079): both KLs where the teacher wavers.

  Sampled tokens under PPO's clip, and the forward KL within the teacher's k
  likeliest tokens where its entropy is above tau nats. Status: published,
  details from summaries.
  """
  within = functools.partial(candidates.forward_kl_renormalized, k=k)
  gate = functools.partial(candidates.where_unsure, tau=tau)
  unsure = compose.Term(
    'unsure', (('divergence', within), ('loss', gate)), aggregations.token_mean
  )
  return grpo.dapo(low=clip, high=clip)._replace(
    advantage=distillation.reverse_kl,
    terms=(unsure,),
    monitors=(*compose.MONITORS, *sampled.MONITORS),
  )
