"""What is shown of each recipe by enumeration, and of which nothing is.

What a recipe's gradient is in expectation is tested in the other files of exact
gradients. The rest have the policy gradient on policy, up to a factor, once a
plain baseline takes the place of their advantage: that is tested here.
"""

import family
import jax.numpy as jnp
import mdp
import numpy as np
import pytest

from arl.kernels import advantages
from arl.methods import compose

pytestmark = pytest.mark.usefixtures('x64')

# What a recipe's own gradient is, as those files show; `launch.table` tells it.
EXACT: dict[str, str] = {
  'agentic.turn_ppo': 'by lam = 1, or a true critic; critic at rest',
  'critics.alone': 'at rest at the true value',
  'distillation.opd_to_go': 'of the reverse KL of sequences',
  'distillation.by_position': 'of the reverse KL, weighted by position',
  'distillation.exopd': 'of its objective, in the states that are visited',
  'distillation.exopd_routed': 'as exopd, to the teacher of the task',
  'distillation.guarded': 'as privileged, where nothing is reconsidered',
  'distillation.turnopd': 'of the reverse KL, if a turn is a token',
  'distillation.reopold': 'goes along with that of the reverse KL',
  'distillation.by_entropy': 'goes along with that of the reverse KL',
  'distillation.opd': 'of the reverse KL, in the states that are visited',
  'distillation.glm5_cross_stage': 'of the reverse KL, as opd',
  'distillation.privileged': 'of the reverse KL, as opd',
  'distillation.seed': 'of its own term: weighted log-probs',
  'distillation.sod': 'goes along with that of the reverse KL',
  'distillation.atod': 'goes along with that of the reverse KL',
  'exploration.signbalance': 'of the chance of success, times a factor of it',
  'exploration.pass_at_k': 'of the mean of the best of a group',
  'grpo.grpo': 'what dividing by the deviation does',
  'grpo.dr_grpo': 'the policy gradient times a constant',
  'grpo.grpo_pp': 'the policy gradient times a constant',
  'offpolicy.tis': 'unlimited, of another sampler: in the states it visits',
  'offpolicy.tis_sequence': 'unlimited: the policy gradient of any sampler',
  'offpolicy.mis': 'unlimited, of another sampler: in the states it visits',
  'offpolicy.decoupled_ppo': 'of another sampler: in the states it visits',
  'offpolicy.dis': 'unlimited, of another sampler: in the states it visits',
  'offpolicy.anchored': 'of another sampler: in the states it visits',
  'matching.opd_full': 'of the reverse KL, in the states that are visited',
  'matching.opd_top': 'of the reverse KL, over all tokens',
  'matching.opd_tail': 'of the reverse KL, over all tokens',
  'matching.opd_candidates': 'of the reverse KL, over all tokens',
  'matching.neohorse': 'of the reverse KL, over all tokens',
  'matching.kd_full': 'of the forward KL, in the states that are visited',
  'matching.gkd': 'of the JSD, over all tokens',
  'matching.gkd_full': 'of the JSD, in the states that are visited',
  'matching.opad': 'of the JSD, in the states that are visited',
  'matching.tropd': 'of its objective, in the states that are visited',
  'matching.eopd': 'of its objective, in the states that are visited',
  'ppo.ppo': 'by GAE before whitening; what whitening does; critic at rest',
  'ppo.penalized': 'of the return less the KL of rollouts',
  'ppo.vc_ppo': 'the critic at rest',
  'ppo.vapo': 'the critic at rest',
  'ppo.vtrace': 'unlimited, of another sampler: in the states it visits',
  'ppo.starpo': 'the critic at rest',
  'ppo.starpo_s': 'the critic at rest',
  'ppo.sao': 'the critic at rest',
  'ppo.bpco': 'by a true critic that is not bounded',
  'ppo.mc_value': 'at rest at the true value',
  'regression.kimi_omd': 'the policy gradient times a constant',
  'regression.lpo': 'on policy: target less share, of each sequence',
  'regression.lpo_reverse': 'on policy that of lpo_center, to first order',
  'regression.lpo_center': 'on policy: target less share, of each sequence',
  'regression.lpo_mean': 'on policy: target less share, of each sequence',
  'preference.dpo': 'online, at its reference: of the chance to win',
  'preference.agent_q': 'on policy: of the chance to win',
  'regression.garl': 'of the Tsallis loss: q = 0, else to O(1 / group)',
  'regression.paft': 'of the Tsallis loss: q = 0, else to O(1 / group)',
  'regression.pair_soft': 'of the chance to win',
  'reinforce.reinforce': 'the policy gradient',
  'reinforce.rloo': 'the policy gradient',
  'reinforce.remax': 'the policy gradient',
  'reinforce.opo': 'the policy gradient times a constant, of equal lengths',
  'soft.topr': 'the policy gradient; unlimited, of any sampler',
  'soft.dppo': 'unlimited, of another sampler: in the states it visits',
  'soft.dppo_kl': 'unlimited, of another sampler: in the states it visits',
  'soft.bpo': 'the policy gradient times a constant',
  'terms.adaptive_kl': 'of the divergence to the reference, state by state',
  'terms.imitation': 'at rest on data of its own',
}
# Of which nothing is shown here, and why.
NOTHING = {
  'critics.coderl': 'weighs a token by the chance of the outcome that came',
  'reward.bt': 'a model of rewards: see test_reward_models.py',
  'reward.orm': 'a model of rewards: see test_reward_models.py',
  'reward.prm': 'a model of rewards: see test_reward_models.py',
  'reward.agent_prm': 'a model of rewards: see test_reward_models.py',
  'preference.dpo_smoothed': 'pairs: see test_preference.py',
  'preference.dpo_robust': 'pairs: see test_preference.py',
  'preference.step_dpo': 'pairs: see test_preference.py',
  'preference.ipo': 'pairs: see test_preference.py',
  'preference.ipo_summed': 'pairs: see test_preference.py',
  'preference.simpo': 'pairs: see test_preference.py',
  'preference.orpo': 'pairs: see test_preference.py',
  'preference.kto': 'answers with a reference point: see test_prospect.py',
  'regression.conspo': 'a contrast in a group: no expectation is claimed',
  'regression.conspo_all': 'a contrast in a group: no expectation is claimed',
  'regression.pair_hard': 'a pull to a distribution over the group',
  'supervised.actobs': 'imitation: see test_supervised.py',
  'supervised.weighted': 'imitation: see test_supervised.py',
  'tokens.delta': 'weighs a token by the side its advantage is on',
}


REST = [name for name in family.RECIPES if name not in {**EXACT, **NOTHING}]


def test_every_name_is_a_recipe():
  assert {*EXACT, *NOTHING} <= family.RECIPES.keys()


def _with_a_plain_baseline(objective):
  """The objective on leave-one-out, with what else its credit gives."""
  own = compose.steps(objective.advantage)
  kept = 'factor', 'importance', 'kept', 'shared'
  others = [step for step in own if step[0] in kept]
  return objective._replace(
    advantage=(('advantage', advantages.leave_one_out), *others), terms=()
  )


def test_on_policy_the_rest_are_exact_with_a_plain_baseline():
  parts = {n: _with_a_plain_baseline(family.RECIPES[n]) for n in REST}
  exact = -mdp.exact()
  for name, got in mdp.expected(parts, 2).items():
    factor = float(jnp.vdot(got, exact) / jnp.vdot(exact, exact))
    assert factor > 0
    np.testing.assert_allclose(
      got, factor * exact, rtol=1e-9, atol=1e-12, err_msg=name
    )
