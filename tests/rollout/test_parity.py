"""What the engine says of its samples is what the trainer computes for them."""

import jax
import numpy as np
import pytest

from arl import episode, types
from arl.rollout import engine, local, pack
from arl.train import forward

ROWS, WIDTH, TURNS = 8, 64, 3
TEMPERATURES = (0.5, 1.0, 1.5)


@pytest.fixture(scope='module')
def made(tiny):
  return local.LocalEngine(*tiny, slots=ROWS, context=WIDTH, seed=1)


@pytest.fixture(scope='module')
def logp_of(tiny):
  """The trainer's logp [B, T] of a batch at a temperature."""
  model, params = tiny

  @jax.jit
  def compute(columns, temperature):
    run = forward.make(model, temperature=temperature, chunk=0)
    return run(params, columns, frozenset({'logp'}))['logp']

  def logp_of(batch, temperature):
    columns = types.columns(batch)
    return np.array(compute(columns, np.float32(temperature)))

  return logp_of


def rolled_out(made, temperature):
  """Episodes of three turns and all lengths, cached from turn to turn."""
  rng = np.random.default_rng(3)
  sampling = engine.Sampling(temperature=temperature, stop=(0,))
  rows = [rng.integers(1, 32, 1 + 2 * i).tolist() for i in range(ROWS)]
  masks = [[False] * len(row) for row in rows]
  logps = [[0.0] * len(row) for row in rows]
  for turn in range(TURNS):
    asked = [
      engine.Request(tuple(row), 8, (i, turn), session=(temperature, i))
      for i, row in enumerate(rows)
    ]
    for i, sample in enumerate(made.generate(asked, sampling)):
      seen = rng.integers(1, 32, i % 4).tolist()
      rows[i] += [*sample.tokens.tolist(), *seen]
      masks[i] += [True] * len(sample.tokens) + [False] * len(seen)
      logps[i] += [*sample.logp.tolist(), *[0.0] * len(seen)]
  return [
    episode.Episode(
      episode.Task(f'task {i // 2}', '', {}),
      i % 2,
      np.array(rows[i], np.int32),
      np.array(masks[i]),
      np.array(logps[i], np.float32),
      np.zeros(len(rows[i]), np.float32),
      np.zeros(len(rows[i]), np.int32),
      episode.FINISHED,
    )
    for i in range(ROWS)
  ]


@pytest.mark.parametrize('temperature', TEMPERATURES)
def test_engine_and_trainer_agree(made, logp_of, temperature):
  episodes = rolled_out(made, temperature)
  count = sum(e.mask.sum() for e in episodes)
  assert count > 60
  for place in (pack.pack, pack.pad):
    batch = place(episodes, rows=ROWS, width=WIDTH, max_turns=TURNS)
    logp = logp_of(batch, temperature)
    gap = np.abs(logp - batch.rollout_logp)[batch.mask]
    assert gap.shape == (count,) and gap.max() < 1e-4
    # It would be seen: another temperature, and a shift by one.
    other = logp_of(batch, temperature + 0.2)
    assert np.abs(other - batch.rollout_logp)[batch.mask].max() > 0.1
    shifted = np.abs(np.roll(logp, 1, axis=1) - batch.rollout_logp)
    assert np.median(shifted[batch.mask]) > 0.1


@pytest.mark.parametrize('temperature', TEMPERATURES)
def test_score_agrees(made, logp_of, temperature):
  episodes = rolled_out(made, temperature)
  batch = pack.pad(episodes, rows=ROWS, width=WIDTH, max_turns=TURNS)
  batch = batch._replace(mask=batch.segments != 0)  # prompts as well
  logp = logp_of(batch, temperature)
  scores = made.score([e.tokens for e in episodes], temperature)
  for row, e, score in zip(logp, episodes, scores, strict=True):
    assert score.shape == e.tokens.shape and score[0] == 0
    np.testing.assert_allclose(score, row[: len(score)], atol=1e-4)
    np.testing.assert_allclose(score[e.mask], e.logp[e.mask], atol=1e-4)
