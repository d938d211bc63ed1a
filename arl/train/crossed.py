"""Whether what is said depends on the prompt: each answer behind each prompt.

An answer is the first action of an episode, and its prompt what stands before
it. Of n prompts, n^2 sequences are scored by the engine.
"""

import math
from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.prompts import collapse
from arl.rollout import engine as engine_lib


def parts(one: episode.Episode) -> tuple[list[int], list[int]]:
  """The ids of an episode's prompt and of its first action."""
  sampled = np.flatnonzero(one.mask)
  begin = int(sampled[0])
  first = sampled[one.turn[sampled] == one.turn[begin]]
  rest = first[first == begin + np.arange(len(first))]
  ids = one.tokens.tolist()
  return ids[:begin], ids[begin : int(rest[-1]) + 1]


def scores(
  engine: engine_lib.Engine,
  episodes: Sequence[episode.Episode],
  *,
  context: int,
  temperature: float,
) -> np.ndarray:
  """Mean log-prob of a token of answer i behind prompt j, [n, n].

  Answers are cut so that each fits behind the longest prompt.

  Args:
    engine: scores with its weights of now.
    episodes: one of each of n prompts.
    context: tokens of a row.
    temperature: of the sampling.
  """
  told = list(map(parts, episodes))
  prompts = [prompt for prompt, _ in told]
  room = context - max(map(len, prompts))
  answers = [answer[:room] for _, answer in told]
  rows = [[*prompt, *answer] for answer in answers for prompt in prompts]
  scored = engine.score(rows, temperature)
  n = len(episodes)
  means = [
    np.mean(logp[-len(answers[i // n]) :], dtype=np.float64)
    for i, logp in enumerate(scored)
  ]
  return np.array(means).reshape(n, n)


def measure(
  engine: engine_lib.Engine,
  groups: Sequence[episode.Group],
  *,
  context: int,
  temperature: float,
  most: int = 16,
) -> dict[str, float]:
  """How much the first of each group's answers says about its prompt.

  Returns:
    `templates/information` in nats, of at most `templates/ceiling`, and the
    share `templates/retrieved`; nothing for fewer than two groups. See
    `collapse`.
  """
  spoken = [
    one
    for group in groups
    for one in [next((e for e in group.episodes if e.mask.any()), None)]
    if one is not None
  ]
  if len(spoken) < 2:
    return {}
  made = scores(engine, spoken[:most], context=context, temperature=temperature)
  return {
    'templates/information': collapse.information(made),
    'templates/ceiling': math.log(len(made)),
    'templates/retrieved': collapse.retrieval(made),
  }
