"""Other families than that of most tests, and two servers; each starts anew."""

import numpy as np
import pytest
import real

from arl.rollout import engine, sglang
from arl.train import sync

SIZE = real.SIZES['qwen3']
PLAIN = engine.Sampling()


@pytest.mark.slow
@pytest.mark.parametrize('family', ['llama', 'qwen2'])
def test_other_families(family, tmp_path):
  size = real.SIZES[family]
  ours = real.embedded(size, real.params(size, 0))
  with real.serving(family, tmp_path) as url:
    made = real.connect(url, size)
    real.check_greedy(made, ours)
    real.check_log_probs(made, ours, 0.7)
    made.close()


@pytest.mark.slow
def test_a_mixture_tells_the_experts_that_it_chose(tmp_path):
  size = real.SIZES['qwen3_moe']
  ours = real.embedded(size, real.params(size, 0))
  flag = '--enable-return-routed-experts'
  with real.serving('qwen3_moe', tmp_path, flag) as url:
    made = real.connect(url, size)
    real.check_greedy(made, ours)
    real.check_log_probs(made, ours, 0.7)
    greedy = engine.Sampling(temperature=0, stop=real.STOP, experts=True)
    for _ in range(2):  # and out of the cache
      for a, b in zip(
        ours.generate(real.requests(), greedy),
        made.generate(real.requests(), greedy),
      ):
        np.testing.assert_array_equal(
          np.sort(a.experts, axis=-1), np.sort(b.experts, axis=-1)
        )
    changed = real.params(size, 1)
    sync.disk(
      made, changed, 1, size=size, folder=tmp_path / 'w', probe=real.probe(size)
    )
    real.check_greedy(made, real.embedded(size, changed))
    made.close()


@pytest.mark.slow
def test_two_servers_are_one_engine(url, tmp_path):
  ours = [real.embedded(SIZE, real.params(SIZE, seed)) for seed in (0, 1)]
  with real.serving('qwen3', tmp_path) as other:
    told = {'vocab': real.VOCAB, 'context': 512, 'seed': real.SEED}
    alone = real.connect(url)
    sync.disk(
      alone,
      real.params(SIZE, 0),
      0,
      size=SIZE,
      folder=tmp_path,
      probe=real.probe(),
    )
    alone.close()
    made = sglang.connect([url, other], **told)
    real.check_greedy(made, ours[0])

    def publish(seed):
      weights = real.params(SIZE, seed)
      told = {'size': SIZE, 'folder': tmp_path / 'w', 'probe': real.probe()}
      sync.disk(made, weights, made.version + 1, **told)

    seeded = made.generate(real.requests(32), PLAIN)
    publish(1)
    real.check_greedy(made, ours[1])
    assert made.versions() == ['1', '1']
    publish(0)
    for a, b in zip(seeded, made.generate(real.requests(32), PLAIN)):
      np.testing.assert_array_equal(a.tokens, b.tokens)
    made.close()
