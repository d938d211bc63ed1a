"""A strategy that lets the environment's demonstrator act: data to imitate."""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.envs import base
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import strategies


def noisy(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """Episodes of `env.noisy`, as a strategy; engine and sampling are not asked.

  The log-probs of its tokens are nan: no policy sampled them. A demonstration
  is cut where the next message would leave the context.

  Raises:
    ValueError: a prompt that leaves no room to answer, or text of a task or an
      action that the tokenizer cannot spell.
  """
  del engine
  return [
    _demonstrate(env, chat, task, place, sample, plan, env.noisy)
    for place, task in enumerate(tasks, plan.first)
    for sample in range(plan.samples)
  ]


def _demonstrate(env, chat, task, place, sample, plan, act) -> episode.Episode:
  seed, limits = (*plan.path, place, sample), plan.limits
  rng = np.random.default_rng(seed)
  row = strategies.start(env, chat, task, limits, sample, seed)
  while not row.status:
    ids = chat.action(act(row.state, rng))
    sampled = sum(row.mask) + len(ids)
    long = len(row.tokens) + len(ids) > limits.context
    if long or sampled > limits.response_tokens:
      row.end(episode.MAX_TOKENS)
      break
    row.write(ids)
    strategies.advance(row, ids, engine_lib.STOP, env, chat, limits)
  return row.episode()


def beside(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """Multi-turn episodes, and for the last of each task one of `env.oracle`.

  The column `demonstrated` is true in the latter, which is a group of its own:
  no baseline counts it, and `select.varied` drops it, so choose another
  prompts.select. Its log-probs are the engine's score of its tokens; its
  entropies are not known, so no episode has them. All demonstrations come after
  all samples: dealt out in that order, each update gets its share of both.

  Arguments and errors as of `strategies.multi_turn`, and:

  Raises:
    ValueError: fewer than two samples a task.
  """
  last = plan.samples - 1
  if last < 1:
    raise ValueError(
      f'demonstrations.beside: {plan.samples} samples a task leave none to the'
      ' policy; set prompts.samples to 2 or more.'
    )
  sampled = plan._replace(samples=last)
  made = strategies.multi_turn(engine, env, chat, tasks, sampled)
  act = lambda state, rng: env.oracle(state)
  shown = [
    _demonstrate(env, chat, task, place, last, plan, act)
    for place, task in enumerate(tasks, plan.first)
  ]
  scores = engine.score(
    [e.tokens.tolist() for e in shown], plan.sampling.temperature
  )
  shown = [
    e._replace(
      task=e.task._replace(id=e.task.id + episode.DEMONSTRATION),
      logp=np.where(e.mask, score, 0),
    )
    for e, score in zip(shown, scores)
  ]
  return [
    *(_marked(e, False) for e in made),
    *(_marked(e, True) for e in shown),
  ]


beside.gives = frozenset({'demonstrated'})  # type: ignore[attr-defined]
_LACKS = frozenset({'rollout_entropy', 'routed_experts'})
for _strategy in (noisy, beside):
  _strategy.lacks = _LACKS  # type: ignore[attr-defined]


def _marked(one: episode.Episode, demonstrated: bool) -> episode.Episode:
  extras = {n: x for n, x in one.extras.items() if n != 'rollout_entropy'}
  extras['demonstrated'] = np.full(len(one.tokens), demonstrated)
  return one._replace(extras=extras)
