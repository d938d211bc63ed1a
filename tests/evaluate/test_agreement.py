"""Planted causes of a mismatch are told apart, and others are not named."""

import numpy as np
import pytest

from arl.evaluate import agreement

VOCAB, TURNS, LENGTH = 12, 3, 8


def samples(spoil, seed=0, count=6, sharp=3.0):
  """Tokens sampled from random logits; what a sampler reports is spoiled."""
  rng = np.random.default_rng(seed)
  made = []
  for _ in range(count):
    logits = rng.normal(scale=sharp, size=(TURNS * LENGTH, VOCAB))
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    said = np.array([rng.choice(VOCAB, p=np.exp(row)) for row in logp])
    turn = np.repeat(np.arange(TURNS), LENGTH)
    told = spoil(logits, said, turn, rng)
    ours = logp[np.arange(len(said)), said]
    mask = np.ones(len(said), bool)
    made.append({'mask': mask, 'turn': turn, 'logp': told, 'old_logp': ours})
  return made


def at(logits, said, heat=1.0):
  logits = logits / heat
  logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
  return logp[np.arange(len(said)), said]


def shifted(by):
  def spoil(logits, said, turn, rng):
    right = at(logits, said)
    made = [np.roll(right[turn == t], by) for t in range(TURNS)]
    return np.concatenate(made)

  return spoil


def respelt(logits, said, turn, rng):
  other = np.where(turn == 1, (said + 1) % VOCAB, said)
  return at(logits, other)


def reversed_turn(logits, said, turn, rng):
  """The trainer reads a turn backward; the sampler reports what it sampled."""
  sure = -rng.exponential(0.01, len(said))
  return np.where(turn == 2, sure, at(logits, said))


CAUSES = {
  agreement.SHIFT: (shifted(1), shifted(-1)),
  agreement.TEMPERATURE: tuple(
    lambda logits, said, turn, rng, heat=heat: at(logits, said, heat)
    for heat in (0.6, 1.5, 2.0)
  ),
  agreement.TURN: (respelt, reversed_turn),
}


@pytest.mark.parametrize('seed', range(5))
@pytest.mark.parametrize(
  'cause, spoil', [(c, f) for c, each in CAUSES.items() for f in each]
)
def test_planted_causes_are_named(cause, spoil, seed):
  assert agreement.cause(samples(spoil, seed)) == cause


@pytest.mark.parametrize('sharp', [0.3, 1.0, 6.0])
def test_a_temperature_is_seen_of_policies_that_are_unsure_or_sure(sharp):
  hot = lambda logits, said, turn, rng: at(logits, said, 1.5)
  assert agreement.cause(samples(hot, sharp=sharp)) == agreement.TEMPERATURE


def test_what_is_not_finite_is_left_out():
  broken = samples(shifted(1))[0]
  broken = {**broken, 'logp': [None] * len(broken['mask'])}
  assert agreement.cause([broken]) == ''
  assert agreement.cause([broken, *samples(shifted(1))]) == agreement.SHIFT


@pytest.mark.parametrize('seed', range(5))
def test_noise_and_agreement_have_no_name(seed):
  def noisy(logits, said, turn, rng):
    return at(logits, said) + rng.normal(scale=0.3, size=len(said))

  assert agreement.cause(samples(noisy, seed)) == ''
  plain = lambda logits, said, turn, rng: at(logits, said)
  assert agreement.cause(samples(plain, seed)) == ''


def test_few_tokens_say_nothing():
  one = samples(shifted(1), count=1)[0]
  few = {name: x[:4] for name, x in one.items()}
  assert agreement.cause([few]) == agreement.cause([]) == ''


def test_every_cause_has_a_sentence():
  assert agreement.SENTENCES.keys() == {*CAUSES, ''}


def test_correlation_of_what_does_not_vary_is_none():
  assert agreement.correlation(np.ones(4), np.arange(4.0)) == 0
  x = np.array([1.0, 3, 2, 5])
  assert agreement.correlation(x, 2 * x - 1) == pytest.approx(1)
