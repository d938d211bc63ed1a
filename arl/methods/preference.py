"""Preferences: which of two answers is better, or which answers are good.

A pair is a group of two, the preferred answer of higher reward: out of a file
(the strategy `recorded.pairs`), or out of the policy's own rollouts (the select
`pairs.best_against_worst`). No recipe reads what sampled the answers.
"""

import functools

from arl import ranges
from arl.kernels import (
  aggregations,
  monitors,
  preference,
  prospect,
  ratios,
  regressions,
  surrogates,
)
from arl.methods import binding, compose, terms

_PAIRED = (
  ('preferred', regressions.moved_mass),
  ('kept', preference.compared),
)
_EACH_PAIR = compose.on_kept(aggregations.group_mean)
_WATCHED = (
  ('margin', preference.margin),
  ('accuracy', preference.accuracy),
  ('preferred_tokens', preference.preferred_tokens),
  ('other_tokens', preference.other_tokens),
)


def dpo(*, beta: ranges.Positive = 0.1) -> compose.Objective:
  """Direct preference optimization (arXiv:2305.18290, eq. 7).

  The mean over pairs of -log sigmoid(beta * h), h being the log-ratio to the
  reference of the preferred answer less that of the other, summed over tokens.
  In a larger group it is the best against the worst, and a group of equal
  rewards does not count. Over rollouts of the policy itself, with
  `pairs.best_against_worst`, this is online DPO (arXiv:2402.04792). Status:
  published, TRL's code read.
  """
  return compose.Objective(
    advantage=_PAIRED,
    ratio=preference.summed,
    surrogate=functools.partial(preference.sigmoid, beta=beta),
    aggregate=_EACH_PAIR,
    monitors=_WATCHED,
  )


def dpo_smoothed(
  *, beta: ranges.Positive = 0.1, smoothing: ranges.Fraction = 0.1
) -> compose.Objective:
  """DPO with smoothed labels: conservative DPO.

  From a note beside arXiv:2305.18290: a share of the labels is taken to be
  wrong. Status: published, TRL's code read.
  """
  return dpo()._replace(
    surrogate=functools.partial(
      preference.sigmoid_smoothed, beta=beta, smoothing=smoothing
    )
  )


def dpo_robust(
  *, beta: ranges.Positive = 0.1, flipped: ranges.UnderHalf = 0.1
) -> compose.Objective:
  """Robust DPO: unbiased where a share of the labels was flipped.

  arXiv:2403.00409. Status: published, TRL's code read.
  """
  return dpo()._replace(
    surrogate=functools.partial(
      preference.sigmoid_robust, beta=beta, flipped=flipped
    )
  )


def step_dpo(*, beta: ranges.Positive = 0.5) -> compose.Objective:
  """Step-DPO (arXiv:2406.18629): DPO on the first step that differs.

  The right steps before it belong to the prompt, and what comes after it is off
  the mask: the episodes have to be cut so, which `pairs.first_step` does. Left
  out: how a model finds the first wrong step. Status: published, official code
  read.
  """
  return dpo(beta=beta)


def agent_q(*, beta: ranges.Positive = 0.1) -> compose.Objective:
  """Agent Q (arXiv:2408.07199): DPO on actions that a tree search told apart.

  The reference is what sampled the actions, by the log-probs that it gave them,
  so that no second model is held; every batch begins at its reference. A
  strategy of `search` collects and `pairs.siblings` compares; `ranked` is the
  share of the tokens in whose state the critic gave a ranking. Left out: to
  learn from the trees of earlier batches again. Status: published.
  """
  return dpo(beta=beta)._replace(
    ratio=binding.on(preference.summed, ref_logp='rollout_logp'),
    monitors=(*_WATCHED, ('ranked', monitors.ranked)),
  )


def ipo(*, beta: ranges.Positive = 0.1) -> compose.Objective:
  """Identity preference optimization (arXiv:2310.12036), by token averages.

  (h - 1 / (2 beta))^2, beta being the paper's tau: a target, where DPO has no
  end. The paper sums over tokens, which is `ipo_summed`; that averages were
  meant is what its authors have told TRL. Status: published, TRL's code read.
  """
  return ipo_summed(beta=beta)._replace(ratio=preference.averaged)


def ipo_summed(*, beta: ranges.Positive = 0.1) -> compose.Objective:
  """Identity preference optimization (arXiv:2310.12036), as printed.

  Status: published.
  """
  return dpo()._replace(
    surrogate=functools.partial(preference.squared, beta=beta)
  )


def simpo(
  *, beta: ranges.Positive = 2.0, gamma: ranges.NonNegative = 1.0
) -> compose.Objective:
  """Simple preference optimization (arXiv:2405.14734, eq. 6).

  The difference of mean log-probs has to exceed a margin; no reference. Left
  out: the imitation term that the official code offers. Status: published,
  official code read.
  """
  return dpo()._replace(
    ratio=preference.likelihood,
    surrogate=functools.partial(
      preference.sigmoid_margin, beta=beta, gamma=gamma
    ),
  )


def orpo(*, coef: ranges.NonNegative = 0.1) -> compose.Objective:
  """Odds-ratio preference optimization (arXiv:2403.07691).

  Imitation of the preferred answer and, times `coef`, an odds ratio of the two;
  no reference, so no warm start before it. Ours: imitation is of the answer, as
  in the paper, where the official code adds the prompt. A survey spells the
  name "online": that is `dpo` on rollouts. Status: published, official code
  read.
  """
  return dpo()._replace(
    ratio=preference.likelihood,
    surrogate=functools.partial(preference.odds_ratio, coef=coef),
  )


def kto(
  *,
  beta: ranges.Positive = 0.1,
  desirable: ranges.NonNegative = 1.0,
  undesirable: ranges.NonNegative = 1.0,
) -> compose.Objective:
  """Kahneman-Tversky optimization (arXiv:2402.01306, eq. 8).

  Answers that are good (R > 0) or not, without pairs. Needs mismatched answers,
  which `recorded.unpaired` makes. The reference point is of the policy when the
  batch began: with one update a batch that is the paper's. Status: published,
  TRL's code read.
  """
  return compose.Objective(
    advantage=(
      ('preferred', prospect.desirable),
      ('kept', preference.compared),
      ('reference', prospect.reference_point),
    ),
    ratio=preference.summed,
    surrogate=functools.partial(
      prospect.prospect,
      beta=beta,
      desirable=desirable,
      undesirable=undesirable,
    ),
    aggregate=compose.on_kept(aggregations.sequence_mean),
    monitors=(('reference', lambda reference: reference),),
  )


def pair_wins(
  *, clip: ranges.Positive = 0.2, kl_coef: ranges.NonNegative = 0.04
) -> compose.Objective:
  """A soft Pair-GRPO for groups of any size: the share of duels won.

  Beside arXiv:2605.06375, whose own form is `regression.pair_soft`: the
  advantage is wins less losses against the rest of the group, not normalized,
  under GRPO's clip and KL. Status: a survey read, our definition.
  """
  mean = aggregations.sequence_mean
  return compose.Objective(
    advantage=preference.wins,
    surrogate=functools.partial(surrogates.clip, low=clip, high=clip),
    aggregate=mean,
    terms=(terms.kl(kl_coef, aggregate=mean),),
  )


def pair_stepped(
  *, delta: ranges.Positive = 0.2, kl_coef: ranges.NonNegative = 0.04
) -> compose.Objective:
  """A hard Pair-GRPO: the policy is drawn to pi_old * exp(delta * wins).

  Beside arXiv:2605.06375, whose own form is `regression.pair_hard`. On policy
  the gradient is that of `pair_wins` on whole sequences. Left out: to refuse an
  update that went beyond twice delta. Status: a survey read, our definition.
  """
  return pair_wins(kl_coef=kl_coef)._replace(
    ratio=ratios.trajectory,
    surrogate=functools.partial(preference.stepped, delta=delta),
  )
