"""The table of columns: what each name means, its shape and who fills it.

A column is aligned with the tokens: position t speaks of `tokens[:, t]` given
those before it, so nothing is shifted anywhere and position 0 is never on the
mask. Kernels read columns by the names of their parameters; a new column is one
line here.
"""

from typing import NamedTuple

PACK = 'pack'  # observed: the rollout, packed
POLICY = 'policy'  # the differentiated forward pass
SCORE = 'score'  # a forward pass without gradient, once a rollout batch
STEP = 'step'  # a kernel of the method


class Column(NamedTuple):
  meaning: str
  shape: str
  filler: str


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
  'logp': Column('log-prob under the policy', '[B, T]', POLICY),
  'entropy': Column('entropy of the policy', '[B, T]', POLICY),
  'value': Column('critic before the token', '[B, T]', POLICY),
  'old_logp': Column('log-prob when the batch began', '[B, T]', SCORE),
  'ref_logp': Column('log-prob of the reference model', '[B, T]', SCORE),
  'old_value': Column('critic when the batch began', '[B, T]', SCORE),
  'advantage': Column('better than expected by', '[B, T]', STEP),
  'returns': Column('target of the critic', '[B, T]', STEP),
  'log_ratio': Column('of the policy to its anchor', '[B, T]', STEP),
  'objective': Column('what the surrogate maximizes', '[B, T]', STEP),
  'factor': Column('product of the corrections', '[B, T]', STEP),
  'loss': Column('what a term minimizes', '[B, T]', STEP),
}


def filled_by(*fillers: str) -> frozenset[str]:
  """The columns that one of `fillers` provides."""
  return frozenset(n for n, c in COLUMNS.items() if c.filler in fillers)
