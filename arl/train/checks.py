"""Settings that cannot work, refused before anything is built."""

from collections.abc import Callable

import ml_collections

from arl import types
from arl.envs import base
from arl.models import cached
from arl.rollout import engine as engine_lib
from arl.train import taught

_COUNTS = (
  'steps',
  'engine.slots',
  'rollout.max_turns',
  'rollout.turn_tokens',
  'rollout.response_tokens',
  'prompts.batch',
  'prompts.samples',
  'prompts.rounds',
  'updates.epochs',
  'updates.per_batch',
  'updates.microbatch',
  'updates.max_nonfinite',
  'eval.every',
  'eval.tasks',
  'eval.final_tasks',
  'checkpoint.every',
  'checkpoint.keep',
)

_INDEPENDENT = 'each episode goes on by itself'
_ONCE = 'a group is trained on once'
_ROUTED = 'the weights change within an episode'


def check_strategy(strategy: Callable, env: base.Env, name: str) -> None:
  """Refuses a strategy that asks its environment for what it does not have.

  Args:
    strategy: what it asks for are fields of `Env`, by its attribute `asks`.
    env: the environment.
    name: of the strategy.
  """
  for field in sorted(getattr(strategy, 'asks', ())):
    if getattr(env, field) in (None, ()):
      raise ValueError(
        f'{name} asks the environment for {field!r}, which it does not have;'
        ' choose another config.rollout.strategy or config.env.'
      )


def check_whole(made: types.Method, config: ml_collections.ConfigDict) -> None:
  """Refuses a method whose levels the microbatches of this loop would cut."""
  name = config.method.name
  if made.whole - {'group'}:
    raise ValueError(
      f'{name} reads {sorted(made.whole - {"group"})} in its loss, which a'
      ' microbatch may cut; compute it in the credit of a term.'
    )
  samples, microbatch = config.prompts.samples, config.updates.microbatch
  if made.whole and samples > microbatch:
    raise ValueError(
      f'{name} compares the {samples} rollouts of a prompt in its loss, but a'
      f' microbatch has {microbatch} rows; make config.updates.microbatch a'
      f' multiple of {samples}, or lower prompts.samples.'
    )


def check_sampling(config: ml_collections.ConfigDict) -> None:
  """Refuses a rollout whose log-probs the trainer cannot reproduce."""
  r = config.rollout
  if r.top_p != 1 or r.top_k != 0 or r.temperature <= 0:
    raise ValueError(
      f'rollout: temperature={r.temperature}, top_p={r.top_p},'
      f' top_k={r.top_k}: training needs temperature > 0, top_p = 1 and'
      ' top_k = 0, since a truncated distribution is not the one that the'
      ' trainer differentiates; truncate in launch/evaluate.py instead.'
    )


def check_engine(config: ml_collections.ConfigDict) -> None:
  """Refuses settings of an engine that contradict each other."""
  e = config.engine
  if e.cache not in cached.KINDS:
    raise ValueError(
      f"config.engine.cache is {e.cache!r}; use 'int8', or '' to keep what the"
      ' engine computes.'
    )
  if e.make:
    _check_own_engine(config)
  if not e.urls:
    return
  for url in e.urls.split(','):
    if not url.startswith(('http://', 'https://')):
      raise ValueError(
        f'config.engine.urls holds {url!r}; give the addresses of servers, such'
        ' as http://127.0.0.1:30000, with commas between them.'
      )
  if e.sync == 'sync.disk' and not e.folder:
    raise ValueError(
      "config.engine.folder is ''; weights reach the servers through a folder"
      " that they see: name it, or set config.engine.sync to 'sync.tensors'."
    )
  for key in ('dtype', 'cache'):
    if e[key]:
      raise ValueError(
        f'config.engine.{key} is {e[key]!r}, but a server has a precision of'
        " its own; start it with another, and leave this ''."
      )
  if not e.tolerance > 0:
    raise ValueError(
      f'config.engine.tolerance is {e.tolerance}; it is how far the log-probs'
      ' of a server may be from those of the trainer, above 0.'
    )


def _check_own_engine(config: ml_collections.ConfigDict) -> None:
  others = {
    'engine.urls': config.engine.urls,
    'engine.dtype': config.engine.dtype,
    'engine.cache': config.engine.cache,
    'rollout.ahead': config.rollout.ahead,
  }
  for key, value in others.items():
    if value:
      raise ValueError(
        f'config.engine.make names an engine of your own, and {key} is'
        f' {value!r}, which is of the others; leave out one of them.'
      )


def check_ahead(config: ml_collections.ConfigDict, moved: bool) -> None:
  """Refuses what cannot be where rollouts run ahead of the learner.

  Args:
    config: of the run.
    moved: whether its curriculum reads how far each step moved the policy.
  """
  r, p = config.rollout, config.prompts
  if min(r.ahead, r.window) < 0 or (r.window and not r.ahead):
    raise ValueError(
      f'config.rollout.ahead is {r.ahead} and window {r.window}; set each to 0'
      ' or more, and the window to 0 where ahead is.'
    )
  if not r.ahead:
    return
  who = f'config.rollout.ahead is {r.ahead}'
  for key, value, wanted, why in (
    ('rollout.strategy', r.strategy, 'asynchronous.multi_turn', _INDEPENDENT),
    ('rollout.lag', r.lag, 0, 'ahead is how old rollouts may be'),
    ('rollout.budget', r.budget, 0, 'no episode waits for the end of a step'),
    ('prompts.rounds', p.rounds, 1, 'a batch is what the queue gives'),
    ('prompts.max_age', p.max_age, 0, 'ahead is how old a token may be'),
    ('prompts.replay.name', p.replay.name, 'replay.none', _ONCE),
    ('updates.routing', config.updates.routing, 'own', _ROUTED),
  ):
    if value != wanted:
      raise ValueError(
        f'{who}, but {key} is {value!r}: {why}; set it to {wanted!r}, or ahead'
        ' to 0.'
      )
  if config.engine.pause not in engine_lib.PAUSES:
    raise ValueError(
      f'config.engine.pause is {config.engine.pause!r}; use one of'
      f' {engine_lib.PAUSES}.'
    )
  if p.in_flight < 1:
    raise ValueError(
      f'{who}: set config.prompts.in_flight to how many groups are played at a'
      f' time, 1 or more, such as prompts.batch ({p.batch}).'
    )
  if moved or 'temperature' in config.knobs:
    what = 'prompts.choose' if moved else 'knobs.temperature'
    raise ValueError(
      f'{who}, but config.{what} follows the policy from step to step, and'
      ' groups of several steps are sampled at a time; choose another, or set'
      ' ahead to 0.'
    )
  if r.stop_text and not config.engine.urls:
    raise ValueError(
      f'{who}, but config.rollout.stop_text is {r.stop_text!r}, which the'
      " embedded engine cannot spell while others sample; set it to '', or"
      ' config.engine.urls to servers.'
    )


def check_teacher(config: ml_collections.ConfigDict) -> None:
  """Refuses teachers that are none, or that speak of another temperature."""
  teachers = taught.named(config.model.teacher)
  hot = config.rollout.temperature != 1
  if teachers and taught.served(config.model.teacher) and hot:
    raise ValueError(
      f'config.rollout.temperature is {config.rollout.temperature}, but servers'
      ' score at temperature 1 alone; set it to 1, or config.model.teacher to'
      ' the folder of a model.'
    )


def check_scorer(strategy: Callable, config: ml_collections.ConfigDict) -> None:
  """Refuses a teacher, or an average, that a strategy cannot let score."""
  share, teacher = config.model.average, config.model.teacher
  if not 0 <= share <= 1:
    raise ValueError(
      f'config.model.average is {share}; it is the share of the new weights in'
      ' the average that teaches, from 0, for none, to 1.'
    )
  if share and not taught.takes(strategy):
    raise ValueError(
      f'config.model.average is {share}, but {config.rollout.strategy} lets no'
      " teacher score; set it to 0, or choose 'privileged.told_steps' or kin."
    )
  if share and teacher:
    raise ValueError(
      f'config.model.average is {share} and config.model.teacher {teacher!r};'
      ' one of them teaches: leave out the other.'
    )
  several = len(taught.named(teacher)) > 1
  if taught.takes(strategy) and (several or taught.served(teacher)):
    raise ValueError(
      f'config.model.teacher is {teacher!r}, but {config.rollout.strategy} is'
      ' taught by one model out of a folder.'
    )


def check_spread(config: ml_collections.ConfigDict, most: int) -> None:
  """Refuses groups of one where a group is kept for its spread.

  Args:
    config: of the run.
    most: how many times prompts.samples a task may have.
  """
  p = config.prompts
  if p.samples * most == 1 and p.select == 'select.varied':
    raise ValueError(
      'config.prompts.samples is 1, but select.varied keeps groups whose'
      ' rewards differ, which one rollout never does; raise it, or set'
      " config.prompts.select to 'select.everything'."
    )


def check_numbers(config: ml_collections.ConfigDict) -> None:
  """Refuses counts below what they mean."""
  for name in _COUNTS:
    block, _, key = name.rpartition('.')
    value = (config[block] if block else config)[key]
    if value < 1:
      raise ValueError(f'config.{name} is {value}; it must be at least 1.')
  u, p = config.updates, config.prompts
  if u.per_batch > p.batch:
    raise ValueError(
      f'config.updates.per_batch is {u.per_batch}, but a batch has only'
      f' {p.batch} groups to share out; set it to at most prompts.batch.'
    )
  for block, key in (
    ('rollout', 'lag'),
    ('model', 'value_bins'),
    ('eval', 'crossed'),
  ):
    if config[block][key] < 0:
      raise ValueError(
        f'config.{block}.{key} is {config[block][key]}; it must be 0 or more.'
      )
  if config.model.value_bins == 1:
    raise ValueError(
      'config.model.value_bins is 1, a critic that can say one thing only; set'
      ' it to 2 or more, or to 0 for a critic of one number.'
    )
  if not 0 <= config.rollout.max_failed < 1:
    raise ValueError(
      f'config.rollout.max_failed is {config.rollout.max_failed}; it is the'
      ' share of episodes without a grade that is put up with, from 0 to below'
      ' 1.'
    )
