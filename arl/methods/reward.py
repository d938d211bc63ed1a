"""Reward models: critics of what was said, beside the policy that said it.

Each is a term over the critic's `value_after`. Trained by the loop, with
config.model.critic = 'own', it reads what the policy samples, or what a file
holds, and the policy does not move; the run's `final/critic` is the reward
model, which `arl.train.reward_models` reads.
"""

import functools

import jax

from arl import ranges
from arl.kernels import aggregations, preference, regressions
from arl.kernels import reward_models as models
from arl.methods import binding, compose

_STEP_MEAN = compose.on_kept(aggregations.token_mean)


def bt(
  *, margin: ranges.NonNegative = 0.0, centering: ranges.NonNegative = 0.0
) -> compose.Term:
  """The reward model of Bradley and Terry (arXiv:2203.02155, eq. 1).

  The mean over pairs of -log sigmoid(r_w - r_l - margin), a pair being the best
  and the worst of a group: out of a file (`recorded.pairs`), or out of rollouts
  (`pairs.best_against_worst`). A group of equal rewards does not count.
  `centering` times (r_w + r_l)^2 keeps scores about 0. Status: published, TRL's
  code read.
  """

  def loss(objective: jax.Array, off_center: jax.Array) -> jax.Array:
    return off_center - objective

  center = functools.partial(models.off_center, coef=centering)
  likelihood = functools.partial(
    preference.sigmoid_margin, beta=1.0, gamma=margin
  )
  return compose.Term(
    'pairs',
    (
      ('log_ratio', models.outcome),
      ('objective', likelihood),
      ('off_center', center),
      ('loss', loss),
    ),
    compose.on_kept(aggregations.group_mean),
    credit=(
      ('preferred', regressions.moved_mass),
      ('kept', preference.compared),
    ),
    monitors=(
      ('margin', preference.margin),
      ('accuracy', preference.accuracy),
    ),
  )


def orm(*, above: ranges.Finite = 0.5) -> compose.Term:
  """The outcome reward model: is the whole of it right? (arXiv:2110.14168).

  A binary cross-entropy after the last token, what earned more than `above`
  being right, and the two classes count alike. The metric `surplus` is the
  chance that the model claims less the share that is right. Left out: a
  model that says yes or no in words. Status: published.
  """
  judged = functools.partial(models.judged, above=above)
  return compose.Term(
    'outcome',
    (('log_ratio', models.outcome), ('loss', models.labelled)),
    models.balanced,
    credit=(('preferred', judged),),
    monitors=(('accuracy', models.right), ('surplus', models.surplus)),
  )


def prm() -> compose.Term:
  """The process reward model: is this step right? (arXiv:2305.20050).

  A binary cross-entropy after each turn, to the label in `process_rewards`: 0
  or 1, or a chance. Labels of Math-Shepherd (arXiv:2312.08935), by rollouts
  from each step on, come of the strategies `vine.hard_labels` and
  `vine.soft_labels`; others of an environment that scores steps. Status:
  published, TRL's code read.
  """
  watched = binding.on(models.agreement, target='process_rewards')
  loss = binding.on(models.cross_entropy, target='process_rewards')
  return compose.Term(
    'steps',
    (('loss', loss),),
    _STEP_MEAN,
    credit=(('kept', models.step_end),),
    monitors=(('agreement', watched),),
  )


def agent_prm(*, gamma: ranges.Fraction = 0.95) -> compose.Term:
  """AgentPRM (arXiv:2502.10325): a Q of turns, learnt from whole rollouts.

  The soft target of a turn is the outcome, discounted by the turns that are
  left. Rewards are 0 to 1. As a term of the reward its score ranks rollouts for
  `preference.dpo`, or is what `grpo.grpo` compares. Left out: the advantage
  over a reference critic. Status: published, official code read, which
  discounts from the start.
  """
  target = functools.partial(models.discounted_outcome, gamma=gamma)
  return prm()._replace(
    loss=(('loss', models.cross_entropy),),
    credit=(('target', target), ('kept', models.step_end)),
    monitors=(('agreement', models.agreement),),
  )
