"""The table of columns: what each name means, its shape and who fills it.

A column is aligned with the tokens: position t speaks of `tokens[:, t]` given
those before it, so nothing is shifted anywhere and position 0 is never on the
mask. Kernels read columns by the names of their parameters; a new column is one
line here.
"""

from typing import NamedTuple

PACK = 'pack'  # observed: the rollout, packed
EXTRA = 'extra'  # observed too, but only packed where it is read
POLICY = 'policy'  # the differentiated forward pass
SCORE = 'score'  # a forward pass without gradient, once a rollout batch
LOOP = 'loop'  # the loop itself: noise, how far the run is, knobs
STEP = 'step'  # a kernel of the method


class Column(NamedTuple):
  """A row of the table.

  Attributes:
    meaning: in a few words.
    shape: of the array; K is a number of entries, N one of bins, L of layers,
      M of models.
    filler: who gives it.
    setting: what to set so that it is there, where it is not always.
    padding: what it holds where there is no token.
  """

  meaning: str
  shape: str
  filler: str
  setting: str = ''
  padding: int = 0


_STRATEGY = 'set config.rollout.strategy to one that gives it'
_TEACHER = "set config.model.teacher to the teacher's folder"
_TEACHERS = (
  "set config.model.teacher to several, 'NAME=FOLDER,NAME=FOLDER', by the parts"
  " of env 'mixture.make'"
)
_REPLAY = "set config.updates.routing to 'rollout', for a mixture of experts"
COLUMNS = {
  'tokens': Column('token ids', '[B, T] int32', PACK),
  'positions': Column('index within its sequence', '[B, T] int32', PACK),
  'segments': Column('attention block; 0 is padding', '[B, T] int32', PACK),
  'mask': Column('true where the policy chose the token', '[B, T] bool', PACK),
  'rewards': Column('reward, on the token that earned it', '[B, T]', PACK),
  'rollout_logp': Column('behavior log-prob, from the engine', '[B, T]', PACK),
  'seq': Column('sequence (trajectory)', 'Level', PACK),
  'group': Column('rollouts of one prompt', 'Level', PACK),
  'turn': Column('turn within a sequence', 'Level', PACK),
  'step_of_group': Column(
    'turns of a group with one index in their sequences', 'Level', EXTRA
  ),
  'state': Column(
    'turns of a group that answer what the environment shows alike',
    'Level',
    EXTRA,
    'use an environment that has an anchor, and a rollout.strategy that plays'
    ' it',
  ),
  'tree': Column(
    'sequences of a group that grew out of one beginning',
    'Level',
    EXTRA,
    f"{_STRATEGY}, such as 'branching.tree'",
  ),
  'node': Column(
    'copies of one stretch of tokens in the sequences of a tree',
    'Level',
    EXTRA,
    f"{_STRATEGY}, such as 'branching.tree'",
  ),
  'copies': Column(
    'sequences of the batch that have a copy of the token',
    '[B, T] int32',
    EXTRA,
    f"{_STRATEGY}, such as 'branching.tree'",
  ),
  'hindsight_logp': Column(
    'log-prob under the sampler that is told what the environment answered',
    '[B, T]',
    EXTRA,
    f"{_STRATEGY}, such as 'privileged.told_feedback'",
  ),
  'truncated': Column(
    'true in a sequence that a limit cut off', '[B, T] bool', EXTRA
  ),
  'rollout_entropy': Column(
    'entropy of the behavior, from the engine',
    '[B, T]',
    EXTRA,
    'set config.rollout.strategy to one whose tokens the engine samples, such'
    " as 'strategies.multi_turn'",
  ),
  'rollout_temperature': Column(
    'temperature that the token was sampled at, where it turns',
    '[B, T]',
    EXTRA,
    "set config.knobs.temperature, such as {'name': 'knobs.cosine', ...}",
  ),
  'kind': Column(
    'structural kind of the token, see arl.rollout.kinds',
    '[B, T] int32',
    EXTRA,
    'use an environment that tells the parts of an action',
  ),
  'process_rewards': Column(
    'score of a step, on its last token',
    '[B, T]',
    EXTRA,
    'use an environment that scores steps',
  ),
  'baseline': Column(
    'reward of the greedy response to the prompt',
    '[B, T]',
    EXTRA,
    f"{_STRATEGY}, such as 'greedy.with_baseline'",
  ),
  'turn_value': Column(
    'mean return of fresh rollouts from where the turn begins',
    '[B, T]',
    EXTRA,
    f"{_STRATEGY}, such as 'vine.nine'",
  ),
  'ranked': Column(
    'true on an action of a search that was ranked among others',
    '[B, T] bool',
    EXTRA,
    f"{_STRATEGY}, such as 'search.by_critic'",
  ),
  'stage': Column(
    'what a step is in the episode of an expert, see arl.kinds',
    '[B, T] int32',
    EXTRA,
    f"{_STRATEGY}, such as 'expert_steps.espo'",
  ),
  'pivotal': Column(
    'true where a sequence is credited: from the turn on that was tried again,'
    ' in the retry and in the failure, and all over in others',
    '[B, T] bool',
    EXTRA,
    f"{_STRATEGY}, such as 'retries.r3l'",
  ),
  'demonstrated': Column(
    'true in a sequence to imitate, such as one that a demonstrator wrote',
    '[B, T] bool',
    EXTRA,
    f"{_STRATEGY}, such as 'demonstrations.beside'",
  ),
  'hinted': Column(
    'true in a sequence that the teacher was told more about',
    '[B, T] bool',
    EXTRA,
    f"{_STRATEGY}, such as 'privileged.told_skill'",
  ),
  'mismatched': Column(
    'true in a sequence whose answer is that to another prompt',
    '[B, T] bool',
    EXTRA,
    f"{_STRATEGY}, such as 'recorded.unpaired'",
  ),
  'observed': Column(
    'true where the environment spoke, in what is learnt all the same',
    '[B, T] bool',
    EXTRA,
    f"{_STRATEGY}, such as 'conversations.with_observations'",
  ),
  'example_weight': Column(
    'weight of the example that the sequence is, as its record has it',
    '[B, T]',
    EXTRA,
    f"{_STRATEGY}, such as 'conversations.whole'",
  ),
  'sampling_weight': Column(
    'weight of the loss of the group, by how it was selected or drawn',
    '[B, T]',
    EXTRA,
  ),
  'answer': Column(
    'true on the tokens of a reference answer put after the sample',
    '[B, T] bool',
    EXTRA,
    f"{_STRATEGY}, such as 'answers.with_reference'",
  ),
  'teacher': Column(
    'which of several teachers the task is given to',
    '[B, T] int32',
    EXTRA,
    _TEACHERS,
  ),
  'reconsidering': Column(
    'true where the policy verifies, hedges or turns back',
    '[B, T] bool',
    EXTRA,
    "set config.rollout.reconsidering to phrases, such as 'wait|however|let me"
    " check'",
  ),
  'routed_experts': Column(
    'K experts that the sampler sent the token through, in each layer;'
    ' -1 where that is not known',
    '[B, T, L, K] int32',
    EXTRA,
    _REPLAY,
    padding=-1,
  ),
  'logp': Column('log-prob under the policy', '[B, T]', POLICY),
  'entropy': Column('entropy of the policy', '[B, T]', POLICY),
  'value': Column('critic before the token', '[B, T]', POLICY),
  'value_after': Column('critic after the token', '[B, T]', POLICY),
  'value_logits': Column(
    'categorical critic before the token',
    '[B, T, N]',
    POLICY,
    'set config.model.value_bins to the bins of the method',
  ),
  'top_logp': Column(
    'log-probs under the policy of `teacher_ids`', '[B, T, K]', POLICY, _TEACHER
  ),
  'own_logp': Column(
    'log-probs under the policy of `old_ids`', '[B, T, K]', POLICY
  ),
  'reverse_kl': Column('KL(policy || teacher)', '[B, T]', POLICY, _TEACHER),
  'forward_kl': Column('KL(teacher || policy)', '[B, T]', POLICY, _TEACHER),
  'jsd': Column(
    'Jensen-Shannon divergence of policy and teacher',
    '[B, T]',
    POLICY,
    _TEACHER,
  ),
  'old_logp': Column('log-prob when the batch began', '[B, T]', SCORE),
  'old_entropy': Column('entropy when the batch began', '[B, T]', SCORE),
  'ref_logp': Column('log-prob of the reference model', '[B, T]', SCORE),
  'teacher_logp': Column(
    'log-prob of the teacher',
    '[B, T]',
    SCORE,
    _TEACHER,
  ),
  'teacher_entropy': Column(
    'entropy of the teacher', '[B, T]', SCORE, _TEACHER
  ),
  'teacher_logps': Column(
    'log-probs of several teachers', '[B, T, M]', SCORE, _TEACHERS
  ),
  'teacher_ids': Column(
    'the likeliest tokens of the teacher, the likeliest first',
    '[B, T, K] int32',
    SCORE,
    _TEACHER,
  ),
  'teacher_top_logp': Column(
    'log-probs under the teacher of `teacher_ids`', '[B, T, K]', SCORE, _TEACHER
  ),
  'old_ids': Column(
    'the likeliest tokens of the policy when the batch began',
    '[B, T, K] int32',
    SCORE,
  ),
  'old_own_logp': Column(
    'log-probs of `old_ids` when the batch began', '[B, T, K]', SCORE
  ),
  'teacher_own_logp': Column(
    'log-probs under the teacher of `old_ids`', '[B, T, K]', SCORE, _TEACHER
  ),
  'old_value': Column('critic when the batch began', '[B, T]', SCORE),
  'old_value_logits': Column(
    'categorical critic when the batch began',
    '[B, T, N]',
    SCORE,
    'set config.model.value_bins to the bins of the method',
  ),
  'features': Column(
    'random projection of the gradient of log-prob in the head',
    '[B, T, K]',
    SCORE,
  ),
  'rerouted': Column(
    'true where the policy would have sent the token before elsewhere',
    '[B, T] bool',
    SCORE,
    _REPLAY,
  ),
  'noise': Column('uniform in [0, 1), drawn by the loop', '[B, T]', LOOP),
  'iteration': Column('rollout batches before this one', 'scalar', LOOP),
  'progress': Column('share of the run that is done', 'scalar', LOOP),
  'kl_coef': Column(
    'adaptive coefficient of the KL',
    'scalar',
    LOOP,
    "set config.knobs.kl_coef, such as {'name': 'knobs.adaptive_kl', ...}",
  ),
  'advantage': Column('better than expected by', '[B, T]', STEP),
  'turn_advantage': Column(
    'better than expected by, of its turn alone', '[B, T]', STEP
  ),
  'episode_reward': Column(
    "what all steps of an expert's episode earn together", '[B, T]', STEP
  ),
  'returns': Column('target of the critic', '[B, T]', STEP),
  'target': Column('what a regression aims at', '[B, T]', STEP),
  'preferred': Column(
    '1 in what is preferred, -1 in what it is preferred to, otherwise 0',
    '[B, T]',
    STEP,
  ),
  'reference': Column(
    'log-ratio that is neither gain nor loss', '[B, T]', STEP
  ),
  'log_ratio': Column('of the policy to its anchor', '[B, T]', STEP),
  'objective': Column('what the surrogate maximizes', '[B, T]', STEP),
  'factor': Column('product of the corrections', '[B, T]', STEP),
  'importance': Column('weight of the tokens in the mean', '[B, T]', STEP),
  'kept': Column('true where a token stays in the loss', '[B, T] bool', STEP),
  'loss': Column('what a term minimizes', '[B, T]', STEP),
}

# Columns of K tokens each -> the column that says which tokens.
IDS = {
  'top_logp': 'teacher_ids',
  'teacher_top_logp': 'teacher_ids',
  'own_logp': 'old_ids',
  'old_own_logp': 'old_ids',
  'teacher_own_logp': 'old_ids',
}


def with_ids(names: frozenset[str]) -> frozenset[str]:
  """The columns, and those that say which tokens they are of."""
  return names | {IDS[name] for name in names if name in IDS}


def dtype(name: str) -> str:
  """The dtype of a column that is an array."""
  _, _, kind = COLUMNS[name].shape.partition('] ')
  return kind or 'float32'


def filled_by(*fillers: str) -> frozenset[str]:
  """The columns that one of `fillers` provides."""
  return frozenset(n for n, c in COLUMNS.items() if c.filler in fillers)
