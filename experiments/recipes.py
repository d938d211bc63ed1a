"""Every recipe as the quickstart runs it: hyperparameters and settings.

Hyperparameters are the papers', but for those that the size of the task
decides: coefficients of the KL, lengths, GSPO's bounds (a mean log-ratio is
larger in a short sequence), baselines between rewards of 0 and 1, and where a
critic spoils the trunk that it shares with the policy, the weight of its loss,
and for SAO how far its advantages rest on it.
"""

_DAPO = {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28}
_GRPO = {'name': 'grpo.grpo', 'clip': 0.2, 'kl_coef': 0.01}

METHODS: dict[str, dict] = {
  # arl.methods.agentic
  'turn_ppo': {
    'name': 'agentic.turn_ppo',
    'gamma': 0.99,
    'lam': 0.9,
    'clip': 0.2,
    'value_coef': 0.5,
  },
  'steppo': {
    'name': 'agentic.steppo',
    'gamma': 1.0,
    'lam': 1.0,
    'low': 0.003,
    'high': 0.004,
    'kl_coef': 0.001,
    'value_coef': 0.5,
  },
  'step_aligned_clip': {
    'name': 'agentic.step_aligned_clip',
    'low': 0.003,
    'high': 0.004,
    'kappa': 1.0,
    'value_coef': 0.5,
  },
  'step_grpo': {'name': 'agentic.step_grpo', 'clip': 0.2, 'kl_coef': 0.01},
  'step_grpo_return_to_go': {
    'name': 'agentic.step_grpo_return_to_go',
    'clip': 0.2,
    'kl_coef': 0.01,
    'coef': 0.1,
  },
  'bi_level': {
    'name': 'agentic.bi_level',
    'turn_gamma': 0.95,
    'gamma': 1.0,
    'lam': 1.0,
    'low': 0.2,
    'high': 0.28,
    'value_coef': 0.5,
  },
  'grow': {'name': 'agentic.grow', 'clip': 0.2, 'kl_coef': 0.01},
  'espo': {
    'name': 'agentic.espo',
    'sharpness': 1.0,
    'coef': 1.0,
    'clip': 0.2,
    'kl_coef': 0.01,
  },
  'espo_centered': {
    'name': 'agentic.espo_centered',
    'sharpness': 1.0,
    'coef': 1.0,
    'clip': 0.2,
    'kl_coef': 0.01,
  },
  # arl.methods.exploration
  'signbalance': {
    'name': 'exploration.signbalance',
    'base': _DAPO,
    'scale': 1.0,
  },
  'ucpo': {'name': 'exploration.ucpo', 'base': _GRPO, 'tau': 0.2},
  'eapo': {
    'name': 'exploration.eapo',
    'base': _DAPO,
    'positive': 0.5,
    'negative': 0.5,
  },
  'pass_at_k': {'name': 'exploration.pass_at_k', 'base': _DAPO},
  'pass_at_k_scaled': {'name': 'exploration.pass_at_k_scaled', 'base': _DAPO},
  # arl.methods.filters
  'overlong_shaped': {
    'name': 'filters.overlong_shaped',
    'base': _DAPO,
    'longest': 64,
    'cache': 16,
  },
  # arl.methods.grpo
  'grpo': {'name': 'grpo.grpo', 'clip': 0.2, 'kl_coef': 0.01},
  'grpo_adaptive': {'name': 'grpo.grpo_adaptive', 'low': 0.2, 'high': 0.28},
  'grpo_process': {'name': 'grpo.grpo_process', 'clip': 0.2, 'kl_coef': 0.01},
  'dr_grpo': {'name': 'grpo.dr_grpo', 'clip': 0.2, 'length': 64},
  'dapo': {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28},
  'cispo': {'name': 'grpo.cispo', 'high': 4.0, 'low': 1.0},
  'liteppo': {'name': 'grpo.liteppo', 'clip': 0.2},
  'grpo_pp': {'name': 'grpo.grpo_pp', 'low': 0.2, 'high': 0.28, 'length': 64},
  'dual_clip': {'name': 'grpo.dual_clip', 'low': 0.2, 'high': 0.28, 'cap': 3.0},
  'two_sided': {
    'name': 'grpo.two_sided',
    'low': 0.2,
    'high': 0.28,
    'delta': 4.0,
  },
  'starpo_s_grpo': {
    'name': 'grpo.starpo_s',
    'low': 0.2,
    'high': 0.28,
    'entropy_coef': 0.001,
  },
  'live_dapo': {'name': 'grpo.live_dapo', 'low': 0.2, 'high': 0.28},
  # arl.methods.offpolicy
  'tis': {'name': 'offpolicy.tis', 'base': _DAPO, 'low': 0.0, 'high': 2.0},
  'tis_sequence': {
    'name': 'offpolicy.tis_sequence',
    'base': _DAPO,
    'low': 0.0,
    'high': 2.0,
  },
  'tis_normalized': {
    'name': 'offpolicy.tis_normalized',
    'base': _DAPO,
    'low': 0.0,
    'high': 2.0,
  },
  'mis': {'name': 'offpolicy.mis', 'base': _DAPO, 'low': 0.5, 'high': 2.0},
  'mis_product': {
    'name': 'offpolicy.mis_product',
    'base': _DAPO,
    'low': 0.5,
    'high': 2.0,
  },
  'mis_mean': {
    'name': 'offpolicy.mis_mean',
    'base': _DAPO,
    'low': 0.5,
    'high': 2.0,
  },
  'mis_largest': {
    'name': 'offpolicy.mis_largest',
    'base': _DAPO,
    'low': 0.5,
    'high': 2.0,
  },
  'icepop': {
    'name': 'offpolicy.icepop',
    'base': _DAPO,
    'low': 0.5,
    'high': 5.0,
  },
  'decoupled_ppo': {'name': 'offpolicy.decoupled_ppo', 'base': _DAPO},
  'opsm': {'name': 'offpolicy.opsm', 'base': _DAPO, 'delta': 0.5},
  'estr': {'name': 'offpolicy.estr', 'base': _DAPO, 'tau': 1.0, 'eps': 0.01},
  'dis': {'name': 'offpolicy.dis', 'base': _DAPO, 'low': 0.2, 'high': 0.28},
  'two_level': {
    'name': 'offpolicy.two_level',
    'base': _DAPO,
    'low': 0.5,
    'high': 2.0,
  },
  'drop_stale': {'name': 'offpolicy.drop_stale', 'base': _DAPO, 'kappa': 0.1},
  'glm5_reasoning': {'name': 'offpolicy.glm5_reasoning'},
  'glm5_agentic': {'name': 'offpolicy.glm5_agentic', 'low': 0.2, 'high': 0.28},
  # arl.methods.ppo
  'ppo': {
    'name': 'ppo.ppo',
    'gamma': 1.0,
    'lam': 1.0,
    'clip': 0.2,
    'kl_coef': 0.01,
    'value_coef': 0.5,
    'value_clip': 0.2,
    'entropy_coef': 0.0,
  },
  'vc_ppo': {
    'name': 'ppo.vc_ppo',
    'lam': 0.95,
    'low': 0.2,
    'high': 0.2,
    'value_coef': 0.5,
    'value_clip': 0.5,
  },
  'vapo': {
    'name': 'ppo.vapo',
    'alpha': 0.4,
    'low': 0.2,
    'high': 0.28,
    'value_coef': 0.05,
    'value_clip': 0.5,
    'positive_coef': 0.1,
  },
  'categorical': {
    'name': 'ppo.categorical',
    'low': 0.0,
    'high': 1.0,
    'lam': 0.95,
    'clip': 0.2,
    'value_coef': 0.05,
  },
  'vtrace': {
    'name': 'ppo.vtrace',
    'lam': 1.0,
    'delta_cap': 1.0,
    'trace_cap': 1.0,
    'value_coef': 0.5,
  },
  'psgpo': {'name': 'ppo.psgpo', 'coef': 1.0, 'lam': 0.95},
  'reft': {'name': 'ppo.reft', 'kl_coef': 0.01, 'value_coef': 0.5},
  'starpo': {'name': 'ppo.starpo', 'clip': 0.2, 'value_coef': 0.5},
  'starpo_s': {
    'name': 'ppo.starpo_s',
    'low': 0.2,
    'high': 0.28,
    'value_coef': 0.5,
    'entropy_coef': 0.001,
  },
  'sao': {
    'name': 'ppo.sao',
    'low': 0.2,
    'high': 0.28,
    'alpha': 4.0,
    'value_coef': 0.05,
  },
  'bpco': {
    'name': 'ppo.bpco',
    'lowest': 0.0,
    'highest': 1.0,
    'alpha': 0.4,
    'bound': 0.2,
    'value_coef': 0.5,
  },
  # arl.methods.regression
  'kimi_omd': {'name': 'regression.kimi_omd', 'tau': 0.5},
  'kimi_k2': {'name': 'regression.kimi_k2', 'tau': 0.5, 'ptx_coef': 0.1},
  'lpo': {'name': 'regression.lpo', 'tau': 1.0},
  'lpo_reverse': {'name': 'regression.lpo_reverse', 'tau': 1.0},
  'lpo_center': {'name': 'regression.lpo_center', 'tau': 1.0},
  'lpo_mean': {'name': 'regression.lpo_mean'},
  'conspo': {'name': 'regression.conspo', 'tau': 0.5, 'margin': 0.2},
  'conspo_all': {'name': 'regression.conspo_all', 'tau': 0.5, 'margin': 0.2},
  'garl': {'name': 'regression.garl', 'q': 0.75},
  'paft': {'name': 'regression.paft', 'q': 0.75},
  'pair_soft': {'name': 'regression.pair_soft', 'clip': 0.2, 'kl_coef': 0.01},
  'pair_hard': {
    'name': 'regression.pair_hard',
    'delta': 0.02,
    'gamma': 0.98,
    'alpha': 0.5,
    'beta': 0.01,
  },
  # arl.methods.reinforce
  'reinforce': {'name': 'reinforce.reinforce', 'gamma': 1.0},
  'rloo': {'name': 'reinforce.rloo'},
  'remax': {'name': 'reinforce.remax'},
  'opo': {'name': 'reinforce.opo'},
  'reinforce_pp': {
    'name': 'reinforce.reinforce_pp',
    'clip': 0.2,
    'kl_coef': 0.01,
  },
  'reinforce_pp_baseline': {
    'name': 'reinforce.reinforce_pp_baseline',
    'clip': 0.2,
  },
  # arl.methods.resets
  'rrpo': {'name': 'resets.rrpo', 'base': _GRPO},
  'srpo': {'name': 'resets.srpo', 'base': _GRPO},
  'r3l': {
    'name': 'resets.r3l',
    'base': _GRPO,
    'alpha': 2.0,
    'cap': 2.0,
    'coef': 0.05,
  },
  # arl.methods.segments
  'slca': {'name': 'segments.slca', 'base': _GRPO},
  'draco': {'name': 'segments.draco', 'base': _GRPO, 'most': 5.0},
  'baton': {'name': 'segments.baton', 'base': _GRPO, 'kappa': 1.0},
  'vps': {'name': 'segments.vps', 'base': _GRPO, 'coef': 0.3},
  # arl.methods.sequence
  'gspo': {'name': 'sequence.gspo', 'low': 0.003, 'high': 0.004},
  'gspo_token': {'name': 'sequence.gspo_token', 'low': 0.003, 'high': 0.004},
  'gspo_reweighted': {
    'name': 'sequence.gspo_reweighted',
    'low': 0.2,
    'high': 0.28,
  },
  'gmpo': {'name': 'sequence.gmpo', 'low': 0.4, 'high': 0.4},
  # arl.methods.soft
  'sapo': {'name': 'soft.sapo', 'tau_positive': 1.0, 'tau_negative': 1.05},
  'topr': {'name': 'soft.topr', 'baseline': 0.5, 'high': 1.0},
  'dppo': {'name': 'soft.dppo', 'base': _DAPO, 'low': 0.2, 'high': 0.2},
  'dppo_kl': {'name': 'soft.dppo_kl', 'base': _DAPO, 'low': 0.2, 'high': 0.2},
  'bpo': {'name': 'soft.bpo', 'cap': 2.0},
  'nsr': {
    'name': 'soft.nsr',
    'base': _DAPO,
    'low': 0.2,
    'high': 0.28,
    'width': 0.25,
  },
  # arl.methods.states
  'gigpo': {
    'name': 'states.gigpo',
    'gamma': 0.95,
    'coef': 1.0,
    'clip': 0.2,
    'kl_coef': 0.01,
  },
  'gigpo_across': {'name': 'states.gigpo_across', 'base': _GRPO, 'coef': 0.1},
  'g2po': {
    'name': 'states.g2po',
    'gamma': 0.95,
    'coef': 1.0,
    'clip': 0.2,
    'kl_coef': 0.01,
  },
  't_star': {
    'name': 'states.t_star',
    'coef': 1.0,
    'clip': 0.2,
    'kl_coef': 0.01,
  },
  'graphpo': {
    'name': 'states.graphpo',
    'efficiency': 0.2,
    'coef': 1.0,
    'clip': 0.2,
    'kl_coef': 0.01,
  },
  'trca': {
    'name': 'states.trca',
    'gamma': 0.95,
    'coef': 1.0,
    'clip': 0.2,
    'kl_coef': 0.01,
  },
  # arl.methods.stacks
  'surveyed': {
    'name': 'stacks.surveyed',
    'gamma': 0.95,
    'coef': 1.0,
    'low': 0.003,
    'high': 0.004,
    'entropy_coef': 0.001,
  },
  # arl.methods.tokens
  'rest': {'name': 'tokens.rest', 'base': _DAPO, 'start': 0.6, 'growth': 0.002},
  'delta': {'name': 'tokens.delta', 'base': _DAPO, 'rounds': 1},
  # arl.methods.trees
  'tree_grpo': {'name': 'trees.tree_grpo', 'clip': 0.2, 'kl_coef': 0.001},
  'tree_grpo_within': {
    'name': 'trees.tree_grpo_within',
    'clip': 0.2,
    'kl_coef': 0.001,
  },
  'arpo_hard': {'name': 'trees.arpo_hard', 'base': _GRPO},
  'appo': {'name': 'trees.appo', 'base': _GRPO, 'kappa': 1.0},
  'grpo_ma': {'name': 'trees.grpo_ma', 'low': 0.2, 'high': 0.2},
}

# What a method is about, beside its loss: settings by the methods that need
# them, in config paths.
_EVERY_GROUP = {'prompts.select': 'select.everything'}
_ON_POLICY = {'updates.per_batch': 1}
_SETTINGS = (
  # A critic, or a baseline that is no group's, learns from all groups.
  (
    'ppo vc_ppo vapo categorical vtrace psgpo reft starpo sao bpco turn_ppo'
    ' steppo step_aligned_clip bi_level reinforce reinforce_pp remax topr'
    ' kimi_k2 garl paft live_dapo',
    _EVERY_GROUP,
  ),
  # Without a ratio only the first update of a batch is on policy.
  (
    'reinforce rloo remax opo conspo conspo_all garl paft vtrace',
    _ON_POLICY,
  ),
  ('starpo_s starpo_s_grpo surveyed', {'prompts.select': 'select.most_varied'}),
  ('grpo_pp', {'prompts.select': 'select.finished'}),
  ('remax', {'rollout.strategy': 'greedy.with_baseline'}),
  ('garl paft', {'rollout.strategy': 'answers.with_reference'}),
  ('kimi_k2', {'rollout.strategy': 'demonstrations.beside'}),
  ('baton', {'rollout.strategy': 'hindsight.told_feedback'}),
  ('vps', {'rollout.strategy': 'probing.beliefs'}),
  # What is known of turns teaches where outcomes agree.
  ('trca slca gigpo_across', _EVERY_GROUP),
  ('tree_grpo tree_grpo_within', {'rollout.strategy': 'branching.two_trees'}),
  ('arpo_hard surveyed', {'rollout.strategy': 'arpo.four'}),
  ('appo', {'rollout.strategy': 'appo.two'}),
  ('rrpo', {'rollout.strategy': 'resets.rrpo'}),
  ('srpo', {'rollout.strategy': 'resets.srpo'}),
  (
    'espo espo_centered',
    {
      'rollout.strategy': 'expert_steps.espo',
      'prompts.select': 'select.everything',
    },
  ),
  (
    'r3l',
    {'rollout.strategy': 'retries.r3l', 'prompts.select': 'select.everything'},
  ),
  ('grpo_ma', {'rollout.strategy': 'branching.two_answers'}),
  ('categorical', {'model.value_bins': 21}),
  (
    'grpo_adaptive',
    {
      'knobs.kl_coef': {
        'name': 'knobs.adaptive_kl',
        'init': 0.01,
        'target': 0.1,
        'horizon': 1e4,
        'most': 0.2,
      }
    },
  ),
  ('pair_soft', {'prompts.samples': 2, 'prompts.batch': 128}),
  ('sao', {'prompts.samples': 1, 'prompts.batch': 256}),
)


def settings(method: str) -> dict:
  """The settings that a method needs, by config path."""
  found: dict = {}
  for names, values in _SETTINGS:
    if method in names.split():
      found |= values
  return found
