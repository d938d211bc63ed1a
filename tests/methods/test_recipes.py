"""Recipes on the worked sequences, padding full of nan: literal numbers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl import methods
from arl.kernels import advantages, aggregations, divergences, surrogates
from arl.methods import compose, grpo, ppo, reinforce, sequence, terms


def _apply(method, columns):
  """(loss, metrics, gradient in logp, credits) of a method."""
  credits = method.credit(columns)
  weights = method.weigh(columns, credits)

  def loss(logp):
    return method.loss({**columns, 'logp': logp}, credits, weights)

  (value, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(
    columns['logp']
  )
  return value, metrics, gradient, credits


def _run(part, columns=None):
  run = functools.partial(_apply, compose.method(part))
  return jax.jit(run)(columns or worked.batch())


DUAL = grpo.dapo()._replace(
  surrogate=functools.partial(surrogates.dual_clip, low=0.2, high=0.2, cap=1.3)
)
PLAIN = reinforce.rloo()._replace(
  advantage=advantages.group_normalize, aggregate=aggregations.token_mean
)
LOSSES: dict[str, tuple[compose.Objective | compose.Term, float]] = {
  'ppo_clip, token mean': (grpo.dapo(low=0.2, high=0.2), -0.284715),
  'ppo_clip, sequence mean': (grpo.grpo(kl_coef=0), -0.018778),
  'grpo': (grpo.grpo(), -0.016292),
  'dr_grpo': (grpo.dr_grpo(length=8), -0.035512),
  'dapo': (grpo.dapo(), -0.298746),
  'dual clip': (DUAL, -0.296731),
  'gspo': (sequence.gspo(low=0.2, high=0.2), -0.024263),
  'gspo, own bounds': (sequence.gspo(), 0.026732),
  'gspo_token': (sequence.gspo_token(low=0.2, high=0.2), -0.024263),
  'cispo': (grpo.cispo(high=0.28), 0.397880),
  'reinforce': (PLAIN, 0.316943),
  'k1': (terms.kl(1.0, divergences.k1), -0.044444),
  'k2': (terms.kl(1.0, divergences.k2), 0.061944),
  'k3': (terms.kl(1.0), 0.071232),
  'entropy': (terms.entropy(1.0), -0.75),
  'imitation': (terms.imitation(), 1.055556),
}


@functools.cache
def _all():
  """Every row of LOSSES in one compiled function."""
  made = {name: compose.method(part) for name, (part, _) in LOSSES.items()}
  run = jax.jit(
    lambda columns: {n: _apply(method, columns) for n, method in made.items()}
  )
  return jax.device_get(run(worked.batch()))


@pytest.mark.parametrize('name', LOSSES)
def test_losses(name):
  loss, metrics, _, _ = _all()[name]
  want = LOSSES[name][1]
  np.testing.assert_allclose(loss, want, atol=2e-6)
  assert metrics['loss/total'] == loss


GRADIENTS = {
  'ppo_clip, token mean': [
    [-0.152294, -0.102086, 0.0],
    [0.093443, 0.056676],
    [0.092309],
    [-0.039509, 0.0, -0.022795],
  ],
  'gspo': [[-0.105088] * 3, [0.081871] * 2, [0.207696], [-0.026812] * 3],
  'gspo_token': [[-0.105088] * 3, [0.081871] * 2, [0.207696], [-0.026812] * 3],
  'cispo': [
    [-0.152294, -0.102086, -0.176386],
    [0.080175, 0.056676],
    [0.092309],
    [-0.039509, -0.048105, -0.022795],
  ],
  'k2': [
    [0.022222, -0.055556, 0.027778],
    [0.011111, 0.011111],
    [-0.033333],
    [0.005556, 0.044444, -0.077778],
  ],
  'k3': [
    [0.020141, -0.072080, 0.024578],
    [0.010574, 0.010574],
    [-0.038873],
    [0.005419, 0.036631, -0.112639],
  ],
}


@pytest.mark.parametrize('name', GRADIENTS)
def test_gradients(name):
  _, _, gradient, _ = _all()[name]
  want = worked.column(GRADIENTS[name])
  np.testing.assert_allclose(gradient, want, atol=1e-6)


def test_metrics_are_token_means():
  _, metrics, _, _ = _all()['ppo_clip, token mean']
  want = {
    'loss/policy': -0.284715,
    'policy/ratio': 1.039230,
    'policy/kl': 0.039230,
    'policy/clip_fraction': 0.222222,
  }
  for name, value in want.items():
    np.testing.assert_allclose(metrics[name], value, atol=1e-6, err_msg=name)
  assert metrics.keys() == {'loss/total', *want}
  _, metrics, _, _ = _all()['gspo']  # whatever the aggregation of the loss
  ratios = np.repeat([1.016806, 1.161834, 0.818731, 0.951229], worked.LENGTHS)
  np.testing.assert_allclose(metrics['policy/ratio'], ratios.mean(), atol=1e-6)
  _, metrics, _, _ = _all()['cispo']
  np.testing.assert_allclose(metrics['policy/capped'], 1 / 3, rtol=1e-6)


def test_ppo_credits_and_critic():
  # With values of 0 and gamma = lam = 1 the advantage is the whitened return
  # of the penalized rewards, and the critic's target the return itself.
  part = ppo.ppo(lam=1.0, kl_coef=0.1, value_clip=10.0)
  _, metrics, _, credits = _run(part)
  returns = [[1.01, 1.02, 1.0], [0.21, 0.18], [0.01], [0.61, 0.61, 0.62]]
  np.testing.assert_allclose(
    credits['value']['returns'], worked.column(returns), atol=1e-6
  )
  advantage = [
    [1.105242, 1.131282, 1.079203],
    [-0.977937, -1.056056],
    [-1.498732],
    [0.063653, 0.063653, 0.089692],
  ]
  np.testing.assert_allclose(
    credits['policy']['advantage'], worked.column(advantage), atol=2e-6
  )
  square = np.square(np.concatenate(returns)).mean()
  np.testing.assert_allclose(metrics['loss/value'], 0.25 * square, rtol=1e-5)


def test_ppo_without_a_penalty_needs_no_reference():
  part = ppo.ppo(kl_coef=0)
  _, _, _, credits = _run(part)
  assert credits.keys() == {'policy', 'value'}
  assert 'rewards' not in credits['policy']
  assert 'ref_logp' not in compose.method(part).needs


def test_penalized_rewards_reach_the_advantage():
  _, _, _, credits = _run(ppo.penalized(reinforce.rloo(), coef=0.1))
  want = [[-0.01, 0.02, 1.0], [0.03, 0.18], [0.01], [0.0, -0.01, 0.62]]
  np.testing.assert_allclose(
    credits['policy']['rewards'], worked.column(want), atol=1e-6
  )
  totals = [sum(row) for row in want]
  others = [(sum(totals) - total) / 3 for total in totals]
  advantage = [total - other for total, other in zip(totals, others)]
  np.testing.assert_allclose(
    credits['policy']['advantage'], worked.per_sequence(advantage), atol=1e-6
  )


def test_the_divergence_counts_where_it_is_asked_for_and_once():
  def total(part):
    return float(_run(part)[0])

  def in_loss(beta):
    return total(grpo.grpo(kl_coef=beta))

  def in_reward(beta):
    return total(ppo.penalized(grpo.grpo(kl_coef=0), coef=beta))

  off = total(grpo.grpo(kl_coef=0))
  assert in_loss(0.0) == in_reward(0.0) == off
  mean = functools.partial(terms.kl, aggregate=aggregations.sequence_mean)
  np.testing.assert_allclose(in_loss(0.2), off + total(mean(0.2)), rtol=1e-6)
  assert in_reward(0.2) != off
  for part, names in (
    (grpo.grpo(kl_coef=0.2), ['policy', 'kl']),
    (grpo.grpo(kl_coef=0), ['policy']),
    (ppo.penalized(grpo.dapo(), coef=0.2), ['policy']),
  ):
    assert [term.name for term in compose.terms_of(part)] == names


def test_moving_away_from_the_reference_raises_the_loss():
  columns = worked.batch()
  at_reference = {**columns, 'logp': columns['ref_logp']}
  assert float(_run(terms.kl(0.2), at_reference)[0]) == 0.0
  losses = []
  for step in (0.1, 0.5, 1.0):
    moved = {**columns, 'logp': columns['ref_logp'] + jnp.float32(step)}
    losses.append(float(_run(terms.kl(0.2), moved)[0]))
  assert 0 < losses[0] < losses[1] < losses[2]


def _rewarded(logp, old_logp, rewards, lengths):
  return {
    'mask': worked.mask(lengths),
    'logp': worked.column(logp, jnp.nan),
    'old_logp': worked.column(old_logp, jnp.nan),
    'rewards': worked.per_sequence(rewards, 0.0, lengths),
    'seq': worked.sequences(len(lengths), max(lengths)),
    'group': worked.one_group(len(lengths), max(lengths)),
  }


def test_a_sequence_ratio_is_not_weighted_by_length():
  wide = functools.partial(surrogates.clip, low=1.0, high=9.0)
  part = sequence.gspo()._replace(
    surrogate=wide, advantage=lambda rewards: rewards
  )
  columns = _rewarded(
    [[0.1, 0.3], [-0.1] * 4], [[0.0] * 2, [0.0] * 4], [1.0, -1.0], (2, 4)
  )
  np.testing.assert_allclose(_run(part, columns)[0], -0.15828, atol=1e-5)
  doubled = _rewarded(
    [[0.1, 0.3] * 2, [-0.1] * 4], [[0.0] * 4] * 2, [1.0, -1.0], (4, 4)
  )
  np.testing.assert_allclose(_run(part, doubled)[0], -0.15828, atol=1e-5)


def test_a_huge_ratio_off_the_mask_costs_nothing():
  columns = {
    **_rewarded([[-1.0, -1.0]], [[-1.0, -101.0]], [1.0], (2,)),
    'mask': jnp.asarray([[True, False]]),
  }
  part = grpo.dapo()._replace(advantage=lambda rewards: rewards)
  loss, _, gradient, _ = _run(part, columns)
  assert float(loss) == -1.0
  np.testing.assert_array_equal(gradient, [[-1.0, 0.0]])


NEEDS = {
  'reinforce.reinforce': set(),
  'reinforce.rloo': set(),
  'grpo.grpo': {'old_logp', 'ref_logp'},
  'grpo.dr_grpo': {'old_logp'},
  'grpo.dapo': {'old_logp'},
  'grpo.cispo': {'old_logp'},
  'sequence.gspo': {'old_logp'},
  'sequence.gspo_token': {'old_logp'},
  'ppo.ppo': {'old_logp', 'ref_logp', 'old_value', 'value'},
  'terms.imitation': set(),
}


@pytest.mark.parametrize('name', NEEDS)
def test_needs_and_whole(name):
  part = methods.make(name)
  assert isinstance(part, compose.Objective | compose.Term)
  method = compose.method(part)
  assert method.needs == NEEDS[name]
  assert method.whole == set()


def test_needs_follow_the_options():
  def needs(part):
    return compose.method(part).needs

  assert needs(grpo.grpo(kl_coef=0)) == {'old_logp'}
  assert needs(ppo.ppo(kl_coef=0)) == {'old_logp', 'old_value', 'value'}
  assert 'entropy' in needs(ppo.ppo(entropy_coef=0.01))
  assert needs(ppo.penalized(grpo.dapo(), coef=0.1)) == {
    'old_logp',
    'ref_logp',
  }
