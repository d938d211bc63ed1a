"""Each answer behind each prompt."""

import jax
import numpy as np
import pytest
import tiny

from arl import episode
from arl.models import transformer
from arl.rollout import local
from arl.train import crossed


@pytest.fixture(scope='module')
def engine():
  model = transformer.make(tiny.size())
  params = model.init(jax.random.key(0))
  return local.LocalEngine(model, params, slots=4, context=24, seed=0)


def test_prompt_and_first_action():
  one = tiny.episodes(1, 1)[0]
  prompt, answer = crossed.parts(one)
  n = len(prompt)
  assert not one.mask[:n].any()
  assert [*prompt, *answer] == one.tokens[: n + len(answer)].tolist()
  assert one.mask[n : n + len(answer)].all()
  assert not one.mask[n + len(answer)]  # the observation


def test_scores_are_those_of_the_engine(engine):
  episodes = tiny.episodes(3, 1)
  made = crossed.scores(engine, episodes, context=24, temperature=0.5)
  for i, one in enumerate(episodes):
    answer = crossed.parts(one)[1]
    for j, other in enumerate(episodes):
      prompt = crossed.parts(other)[0]
      (logp,) = engine.score([[*prompt, *answer]], 0.5)
      want = np.mean(logp[len(prompt) :])
      assert made[i, j] == pytest.approx(want, abs=1e-5)


def test_a_policy_that_reads_no_prompt_has_no_information():
  class Deaf:
    def score(self, sequences, temperature):
      del temperature
      return [np.where(np.arange(len(s)) > 0, -1.0, 0.0) for s in sequences]

  groups = episode.groups(tiny.episodes(4, 2))
  made = crossed.measure(Deaf(), groups, context=24, temperature=1.0)
  assert made['templates/information'] == pytest.approx(0)
  assert made['templates/ceiling'] == pytest.approx(np.log(4))
  assert made['templates/retrieved'] == 0.25
  one = crossed.measure(Deaf(), groups[:1], context=24, temperature=1.0)
  assert one == {}
