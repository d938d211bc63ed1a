"""Knobs that rollouts read: the temperature, and what a strategy is told.

A strategy is told a knob by the name of a keyword that it takes. A temperature
that turns is part of the policy that sampled, so every token keeps its own in
the column `rollout_temperature`, and the trainer divides the logits by that:
the probability of a token is the one it was sampled with, however old it is.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_collections
import numpy as np

from arl import episode, methods
from arl.methods import binding, compose
from arl.rollout import strategies
from arl.train import taught

COLUMN = 'rollout_temperature'
TEMPERATURE = 'temperature'
_OF_STRATEGIES = {
  'tool_eps': "'knobs.linear', 'init': 0.05, 'last': 0.01, 'batches': 100",
  'entropy_floor': "'knobs.average', 'metric': 'rollout/entropy_low'",
}
NAMES = frozenset({TEMPERATURE, *_OF_STRATEGIES})


def read_by(strategy: Callable) -> frozenset[str]:
  """The knobs that a strategy is told."""
  takes = inspect.signature(strategy).parameters.keys()
  return frozenset(_OF_STRATEGIES) & takes


def check(
  config: ml_collections.ConfigDict, strategy: Callable, evaluates: Callable
) -> None:
  """Refuses strategies and knobs that do not fit each other.

  Args:
    config: of the run.
    strategy: of its training.
    evaluates: of its evaluation.

  Raises:
    ValueError: naming the setting.
  """
  name, knobs = config.rollout.strategy, set(config.knobs)
  if getattr(strategy, 'evaluates', False):
    raise ValueError(
      f'config.rollout.strategy is {name}, whose episodes are no samples of the'
      ' policy; name it in config.eval.strategy instead.'
    )
  for knob in sorted(read_by(strategy) - knobs):
    raise ValueError(
      f'config.rollout.strategy is {name}, which reads the knob {knob!r}; set'
      f" config.knobs.{knob}, such as {{'name': {_OF_STRATEGIES[knob]}}}."
    )
  for knob in sorted(knobs & set(_OF_STRATEGIES) - read_by(strategy)):
    raise ValueError(
      f'config.knobs.{knob} is set, but {name} does not read it; leave it out,'
      ' or choose a rollout.strategy that does.'
    )
  if read_by(evaluates):
    raise ValueError(
      f'config.eval.strategy is {config.eval.strategy}, which reads the knobs'
      f' {sorted(read_by(evaluates))} of training; choose another.'
    )
  if getattr(strategy, 'mixes', False) and not _weighs(config.method):
    raise ValueError(
      f'config.rollout.strategy is {name}, which stores the log-probs of a'
      f' mixture, but {config.method.name} reads no rollout_logp and would take'
      ' forced tokens for likely ones; choose a method that weighs by it, such'
      ' as offpolicy.tis, or forced_tools.masked.'
    )
  teacher = config.model.teacher
  if TEMPERATURE in knobs and teacher and taught.served(teacher):
    raise ValueError(
      'config.knobs.temperature is set, but servers score at temperature 1'
      ' alone; leave it out, or set config.model.teacher to a folder.'
    )


def _weighs(block: ml_collections.ConfigDict) -> bool:
  """Whether a method reads the behavior's log-probs."""
  keywords = block.to_dict()
  made = methods.make(keywords.pop('name'), **keywords)
  if not isinstance(made, compose.Objective | compose.Term):
    return True  # a whole method does not tell
  return any(
    'rollout_logp' in binding.read_by(kernel)
    for term in compose.terms_of(made)
    for _, kernel in (*term.credit, *term.loss)
  )


def play(
  strategy: Callable,
  engine: Any,
  env: Any,
  chat: Any,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
  knobs: Mapping[str, float],
) -> list[episode.Episode]:
  """The episodes of a strategy that is told the knobs of now."""
  told = {name: knobs[name] for name in read_by(strategy)}
  if TEMPERATURE not in knobs:
    return strategy(engine, env, chat, tasks, plan, **told)
  hot = plan.sampling._replace(temperature=knobs[TEMPERATURE])
  plan = plan._replace(sampling=hot)
  made = strategy(engine, env, chat, tasks, plan, **told)
  return [stamped(one, knobs[TEMPERATURE]) for one in made]


def stamped(one: episode.Episode, temperature: float) -> episode.Episode:
  """The episode with the temperature that each of its tokens was sampled at."""
  column = np.full(len(one.tokens), temperature, np.float32)
  return one._replace(extras={**one.extras, COLUMN: column})
