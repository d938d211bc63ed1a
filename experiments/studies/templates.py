"""A bandit over prompts in which reasoning turns into a template.

Every prompt has one right answer, which the policy gives more often than others
from the start. A reward tells so clearly in a quarter of the prompts and hardly
in the others, where it is mostly noise; a strong pull leads to a reference that
reads no prompt. GRPO makes noise as large as signal.
"""

from typing import NamedTuple

import numpy as np

from arl.prompts import collapse, select

PROMPTS, SAMPLES = 16, 8
CLEAR, FAINT, NOISE = 1.0, 0.02, 0.02


class Way(NamedTuple):
  """How groups are selected.

  Attributes:
    mass: of the variance of rewards that is kept; 0 keeps everything.
    exponent: of the share that is kept, by which updates are scaled.
    pulled: whether what is dropped is pulled to the reference all the same.
  """

  mass: float = 0.9
  exponent: float = 0.0
  pulled: bool = False


FILTERS = {
  'everything': Way(0.0),
  'mass 0.9': Way(),
  'mass 0.9, scaled by the root': Way(exponent=0.5),
  'mass 0.9, scaled': Way(exponent=1.0),
  'mass 0.9, but all are pulled': Way(pulled=True),
}


def _softmax(table: np.ndarray) -> np.ndarray:
  odds = np.exp(table - table.max(axis=1, keepdims=True))
  return odds / odds.sum(axis=1, keepdims=True)


def _entropy(chance: np.ndarray) -> np.ndarray:
  return -np.sum(chance * np.log(np.maximum(chance, 1e-12)), axis=-1)


def state_of(policy: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
  """Of a policy [P, P]: what is known of it exactly, and the measure of runs.

  `entropy` is H(Z), of which `information` is I(X; Z); `seen` estimates that
  from an answer a prompt, as `templates/information` does.
  """
  answers = (rng.random((PROMPTS, 1)) > np.cumsum(policy, axis=1)).sum(axis=1)
  answers = np.minimum(answers, PROMPTS - 1)
  scores = np.log(policy[:, answers]).T
  entropy = float(_entropy(policy.mean(axis=0)))
  within = float(np.mean(_entropy(policy)))
  return {
    'entropy': entropy,
    'conditional entropy': within,
    'information': entropy - within,
    'seen': collapse.information(scores),
    'success': float(np.mean(np.diag(policy))),
  }


def train(
  how: str, seed: int, *, steps: int = 400, lr: float = 0.5, pull: float = 1.0
) -> tuple[dict[str, float], dict[str, float]]:
  """The state of the policy before and after training."""
  way = FILTERS[how]
  rng = np.random.default_rng(seed)
  table = 2.5 * np.eye(PROMPTS)
  told = np.where(np.arange(PROMPTS) < PROMPTS // 4, CLEAR, FAINT)
  first = state_of(_softmax(table), rng)
  for _ in range(steps):
    policy = _softmax(table)
    drawn = (
      rng.random((PROMPTS, SAMPLES, 1))
      > np.cumsum(policy, axis=1)[:, None, :-1]
    ).sum(axis=2)
    right = drawn == np.arange(PROMPTS)[:, None]
    reward = told[:, None] * right + NOISE * rng.normal(size=right.shape)
    kept = np.ones(PROMPTS, bool)
    if way.mass:
      kept = select.of_mass(reward.var(axis=1), way.mass)
    spread = reward.std(axis=1, keepdims=True)
    advantage = (reward - reward.mean(axis=1, keepdims=True)) / (spread + 1e-6)
    one_hot = np.eye(PROMPTS)[drawn]
    gained = np.mean(
      advantage[:, :, None] * (one_hot - policy[:, None]), axis=1
    )
    # The gradient of KL(policy || uniform) in logits.
    logs = np.log(np.maximum(policy, 1e-12))
    drawn_back = policy * (logs - np.sum(policy * logs, axis=1, keepdims=True))
    mean = PROMPTS / max(kept.sum(), 1) * np.mean(kept) ** way.exponent
    learnt = mean * kept[:, None]
    held = 1.0 if way.pulled else learnt
    table = table + lr * (learnt * gained - held * pull * drawn_back)
  return first, state_of(_softmax(table), rng)
