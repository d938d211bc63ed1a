"""The curriculum of a run, and which settings of config.prompts can work."""

from collections.abc import Callable

import ml_collections

from arl import episode, methods, names, ranges
from arl.envs import base
from arl.methods import binding, compose
from arl.prompts import curricula, replay, source
from arl.train import checks

_PLAIN = 'curricula.shuffled'


def pool(config: ml_collections.ConfigDict, env: base.Env) -> curricula.Pool:
  """The training tasks of a run."""
  p = config.prompts
  return curricula.Pool(env, p.size, p.batch, config.seed)


def curriculum(
  config: ml_collections.ConfigDict, env: base.Env
) -> curricula.Curriculum:
  """The curriculum that config.prompts.choose names."""
  keywords = config.prompts.choose.to_dict()
  name = keywords.pop('name')
  function = names.resolve(name, 'arl.prompts')
  ranges.check(name, function, keywords)
  return function(pool(config, env), **keywords)


def replay_of(config: ml_collections.ConfigDict) -> replay.Replay:
  """The replay that config.prompts.replay names."""
  keywords = config.prompts.replay.to_dict()
  name = keywords.pop('name')
  function = names.resolve(name, 'arl.prompts')
  ranges.check(name, function, keywords)
  return function(**keywords)


def most_groups(config: ml_collections.ConfigDict) -> int:
  """Groups of a batch at most, one of each task and those of a replay."""
  batch = config.prompts.batch
  return batch + replay_of(config).extra(batch)


def task_stream(
  config: ml_collections.ConfigDict, env: base.Env
) -> Callable[[int], list[episode.Task]]:
  """The training tasks of each step, for what observes no results.

  Raises:
    ValueError: the config has a curriculum, rounds or a replay.
  """
  p = config.prompts
  for key, value, plain in (
    ('choose.name', p.choose.name, _PLAIN),
    ('rounds', p.rounds, 1),
    ('replay.name', p.replay.name, 'replay.none'),
  ):
    if value != plain:
      raise ValueError(
        f'config.prompts.{key} is {value!r}, but here tasks come in their turn;'
        f' set it to {plain!r}, or train with launch/train.py.'
      )
  made = pool(config, env)
  return source.shuffled(
    made.task, size=made.size, batch=made.batch, seed=made.seed
  )


def check(config: ml_collections.ConfigDict, env: base.Env) -> None:
  """Refuses settings of config.prompts that cannot work together.

  Raises:
    ValueError, TypeError: naming the setting, with the fix.
  """
  p = config.prompts
  if min(p.max_age, p.scale, p.least_spread) < 0 or p.least_spread >= 1:
    raise ValueError(
      f'config.prompts: max_age {p.max_age}, scale {p.scale} and least_spread'
      f' {p.least_spread}; set each to 0 or more, the last below 1.'
    )
  checks.check_ahead(config, curriculum(config, env).moved)
  stale = replay_of(config).stale
  _check_parts(config)
  if p.max_age and not stale and p.rounds == 1 and not config.rollout.budget:
    raise ValueError(
      f'config.prompts.max_age is {p.max_age}, but nothing is left over to be'
      ' trained on later; set it to 0, or prompts.rounds above 1, or'
      ' prompts.replay, or rollout.budget.'
    )
  if stale and not p.max_age:
    raise ValueError(
      f'config.prompts.replay is {p.replay.name!r}, but prompts.max_age is 0,'
      ' so that nothing may be trained on again; set it to how many versions a'
      ' group may lie behind.'
    )
  old = 'rollout.ahead' if config.rollout.ahead else 'prompts.max_age'
  age = config.rollout.ahead or p.max_age
  if age and not corrected(config.method):
    raise ValueError(
      f'config.{old} is {age}, but {config.method.name} takes'
      ' what older weights sampled for its own: nothing in it reads'
      ' rollout_logp; set it to 0, or method.name to a correction such as'
      " 'offpolicy.tis', with this method as its base."
    )


def _check_parts(config: ml_collections.ConfigDict) -> None:
  """Refuses episodes in parts where something needs them whole."""
  r, p = config.rollout, config.prompts
  if r.ahead:
    return
  if r.budget < 0 or bool(r.budget) != bool(p.in_flight):
    raise ValueError(
      f'config.rollout.budget is {r.budget} and prompts.in_flight'
      f' {p.in_flight}; set both, the tokens that an episode may be sampled in'
      ' a step and the groups that are played at a time, or both to 0.'
    )
  if not r.budget:
    return
  for key, value, wanted in (
    ('rollout.strategy', r.strategy, 'strategies.multi_turn'),
    ('prompts.rounds', p.rounds, 1),
    ('updates.routing', config.updates.routing, 'own'),
  ):
    if value != wanted:
      raise ValueError(
        f'config.rollout.budget is {r.budget}, but {key} is {value!r}; episodes'
        f' that stop and go on need {wanted!r}; set one or the other.'
      )
  if 'temperature' in config.knobs:
    raise ValueError(
      f'config.rollout.budget is {r.budget}, but config.knobs.temperature turns'
      ' the temperature within an episode; leave out one of them.'
    )
  if p.in_flight < p.batch or not p.max_age:
    raise ValueError(
      f'config.rollout.budget is {r.budget}: set prompts.in_flight'
      f' ({p.in_flight}) to at least prompts.batch ({p.batch}), and'
      f' prompts.max_age ({p.max_age}) to how many versions a token may be old.'
    )


def corrected(block: ml_collections.ConfigDict) -> bool:
  """Whether a method may learn from what older weights sampled.

  It reads the log-probs of the sampler, or has no advantage: what it imitates
  or compares may come from anywhere.
  """
  made = methods.make(**block.to_dict())
  if not isinstance(made, compose.Objective | compose.Term):
    return False
  terms = compose.terms_of(made)
  steps = [
    step for t in terms for step in (*t.credit, *t.loss, ('', t.aggregate))
  ]
  credited = any(name == 'advantage' for name, _ in steps)
  return not credited or any(
    'rollout_logp' in binding.read_by(kernel) for _, kernel in steps
  )
