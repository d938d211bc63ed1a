"""What an expert's episode earns as a whole, against loops and by its laws."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np

from arl import kinds, levels
from arl.kernels import gates

STAGES = kinds.EVIDENCE, kinds.DECISION, kinds.INTENT


@st.composite
def _answers(draw):
  """Rewards, stages and groups [n] of answers, and their lengths."""
  n = draw(st.integers(1, 12))
  each = lambda x: st.lists(x, min_size=n, max_size=n)
  return (
    np.array(draw(each(st.sampled_from([0.0, 0.5, 1.0]))), np.float32),
    np.array(draw(each(st.sampled_from(STAGES)))),
    np.array(draw(each(st.integers(0, 2)))),
    np.array(draw(each(st.integers(1, 3)))),
  )


def columns(rewards, stage, group, length):
  """One answer a row, its reward on the last of its tokens."""
  n, at = len(rewards), np.arange(3)[None]
  mask = at < length[:, None]
  last = at == length[:, None] - 1
  wide = lambda x: jnp.asarray(np.broadcast_to(x[:, None], (n, 3)))
  return {
    'rewards': jnp.asarray(np.where(last, rewards[:, None], 0.0)),
    'stage': wide(stage),
    'mask': jnp.asarray(mask),
    'seq': levels.level(np.arange(n)[:, None], n),
    'group': levels.level(group[:, None].astype(np.int32), 3),
  }


def mean(x):
  return sum(x) / len(x) if len(x) else 0.0


def by_hand(rewards, stage, group, sharpness):
  """Of each answer, by a loop over its group."""
  made = []
  for own in group:
    earned = {
      s: [r for r, t, g in zip(rewards, stage, group) if g == own and t == s]
      for s in STAGES
    }
    decided = earned[kinds.DECISION] + earned[kinds.INTENT]
    gate = lambda x: 1 / (1 + np.exp(-sharpness * mean(x)))
    made.append(
      (gate(earned[kinds.EVIDENCE]) + gate(decided))
      * mean(earned[kinds.INTENT])
    )
  return np.array(made)


reward = jax.jit(gates.episode_reward, static_argnames='sharpness')


@hypothesis.given(_answers(), st.sampled_from([0.5, 1.0, 3.0]))
@hypothesis.settings(max_examples=30, deadline=None)
def test_it_is_what_loops_give(answers, sharpness):
  batch = columns(*answers)
  got = np.asarray(reward(**batch, sharpness=sharpness))
  want = by_hand(*answers[:3], sharpness)
  mask = np.asarray(batch['mask'])
  np.testing.assert_allclose(got, np.where(mask, want[:, None], 0), atol=1e-6)


@hypothesis.given(_answers())
@hypothesis.settings(max_examples=12, deadline=None)
def test_centred_it_sums_to_zero_over_the_episodes_of_the_batch(answers):
  batch = columns(*answers)
  earned = reward(**batch)
  got = gates.centered(earned, batch['mask'], batch['group'])
  group, once = answers[2], np.unique(answers[2], return_index=True)[1]
  np.testing.assert_allclose(np.sum(np.asarray(got)[once, 0]), 0, atol=1e-5)
  apart = np.asarray(earned - got)[np.asarray(batch['mask'])]
  np.testing.assert_allclose(apart, apart[0], atol=1e-6)
  if len(set(group)) == 1:
    np.testing.assert_allclose(got, 0, atol=1e-6)


def test_an_episode_whose_intent_is_missed_earns_nothing():
  n = 4
  batch = columns(
    np.array([1.0, 1.0, 1.0, 0.0], np.float32),
    np.array([kinds.EVIDENCE, kinds.EVIDENCE, kinds.DECISION, kinds.INTENT]),
    np.zeros(n, int),
    np.ones(n, int),
  )
  assert not np.any(reward(**batch))


def test_it_is_added_and_carries_no_gradient():
  batch = columns(
    np.ones(2, np.float32), np.array([0, 2]), np.zeros(2, int), np.ones(2, int)
  )

  def total(rewards):
    return jnp.sum(gates.episode_reward(**{**batch, 'rewards': rewards}))

  assert not np.any(jax.grad(total)(batch['rewards']))
  added = gates.with_episode(jnp.ones(2), jnp.full(2, 3.0), coef=0.5)
  np.testing.assert_allclose(added, 2.5)
