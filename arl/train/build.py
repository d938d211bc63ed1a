"""From a config to the parts of a run, checked before anything is sampled."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
from jax.sharding import Mesh

from arl import episode, methods, names, types
from arl.envs import base
from arl.methods import compose
from arl.models import heads, hf, sizes, tokenizers, transformer
from arl.prompts import source
from arl.rollout import chat as chat_lib
from arl.rollout import local, strategies
from arl.train import forward as forward_lib
from arl.train import optimizers, score, settings, sharding, state
from arl.train import step as step_lib

_FILLED = frozenset(
  {'old_logp', 'ref_logp', 'old_value', 'logp', 'entropy', 'value'}
)
_COUNTS = (
  'steps',
  'engine.slots',
  'rollout.max_turns',
  'rollout.turn_tokens',
  'prompts.batch',
  'prompts.samples',
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


class World(NamedTuple):
  """The host's side of a run: who acts, in what, on which problems.

  Attributes:
    tokenizer: of the model.
    chat: how the model is spoken to.
    loaded: the model, its parameters and its sizes.
    env: the environment.
    engine: the sampler.
    limits: budgets of an episode.
  """

  tokenizer: Any
  chat: chat_lib.Chat
  loaded: hf.Loaded
  env: base.Env
  engine: local.LocalEngine
  limits: strategies.Limits


class Learner(NamedTuple):
  """The devices' side of a run.

  Attributes:
    mesh: where arrays live.
    method: the objective.
    state: parameters and optimizer at the start.
    ref_params: of the reference; None unless the method needs one.
    score: adds columns from forward passes, jitted.
    credit: adds advantages and the like, jitted.
    step: one update, jitted.
    rows: rows of one update.
  """

  mesh: Mesh
  method: types.Method
  state: state.TrainState
  ref_params: Any
  score: Callable
  credit: Callable
  step: Callable
  rows: int


def named(block: ml_collections.ConfigDict, home: str) -> Any:
  """Calls the function that a block names with the block's other keys."""
  keywords = block.to_dict()
  return names.resolve(keywords.pop('name'), home)(**keywords)


def method(block: ml_collections.ConfigDict) -> types.Method:
  """The method that a block describes."""
  made = named(block, methods.__name__)
  if isinstance(made, compose.Objective | compose.Term):
    made = compose.method(made)
  return made


def check_needs(made: types.Method, name: str) -> None:
  """Refuses a method that reads what this loop does not compute."""
  missing = sorted(made.needs - _FILLED)
  if missing:
    raise ValueError(
      f'{name} needs column {missing[0]!r}, which nothing fills in this loop;'
      f' it fills {", ".join(sorted(_FILLED))}.'
    )
  if made.whole:
    raise ValueError(
      f'{name} reads {sorted(made.whole)} in its loss, which a microbatch may'
      ' cut; compute it in the credit of a term.'
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


def limits(config: ml_collections.ConfigDict) -> strategies.Limits:
  """The budgets of an episode."""
  r = config.rollout
  return strategies.Limits(r.max_turns, r.turn_tokens, r.context)


def rows_of(config: ml_collections.ConfigDict) -> int:
  """Rows of one update: one for each of its episodes, in whole microbatches."""
  u, p = config.updates, config.prompts
  episodes = -(-p.batch // u.per_batch) * p.samples
  return -(-episodes // u.microbatch) * u.microbatch


def _check_numbers(config):
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
  if not 0 <= config.rollout.max_failed < 1:
    raise ValueError(
      f'config.rollout.max_failed is {config.rollout.max_failed}; it is the'
      ' share of episodes without a grade that is put up with, from 0 to below'
      ' 1.'
    )


def _fresh_size(name: str, vocab: int) -> sizes.Sizes:
  make = names.resolve(f'sizes.{name}', 'arl.models')
  if not inspect.signature(make).parameters:
    raise ValueError(
      f'config.model.size is {name!r}, a published model with a vocabulary of'
      ' its own; give its folder as config.model.path.'
    )
  return make(vocab)


def load_model(
  block: ml_collections.ConfigDict, seed: int
) -> tuple[hf.Loaded, Any]:
  """A model and its tokenizer, which must fit each other.

  From the folder `path`, or a fresh one of `size` over characters.
  """
  if bool(block.path) == bool(block.size):
    raise ValueError(
      f'model: path={block.path!r} and size={block.size!r}; give the folder of'
      ' a model, or the size of a fresh one, and leave the other empty.'
    )
  if block.path:
    loaded = hf.load(
      block.path, dtype=block.dtype, cast='float32', remat=block.remat
    )
    tokenizer = tokenizers.load(block.path)
  else:
    tokenizer = tokenizers.characters()
    size = _fresh_size(block.size, len(tokenizer))
    model = transformer.make(size, block.dtype, block.remat)
    loaded = hf.Loaded(model, model.init(jax.random.key(seed)), size)
  tokenizers.check_vocab(tokenizer, loaded.model.vocab)
  return loaded, tokenizer


def world(config: ml_collections.ConfigDict) -> World:
  """Builds the host's side, with the parameters that training starts from.

  Raises:
    ValueError, TypeError: a setting that cannot work, with the fix.
  """
  env = named(config.env, 'arl.envs')
  loaded, tokenizer = load_model(config.model, config.seed)
  role = config.rollout.observation_role
  engine = local.LocalEngine(
    loaded.model,
    loaded.params,
    slots=config.engine.slots,
    context=config.rollout.context,
    seed=config.seed,
  )
  chat = chat_lib.chat(tokenizer, observation_role=role)
  return World(tokenizer, chat, loaded, env, engine, limits(config))


def learner(
  config: ml_collections.ConfigDict, made: types.Method, loaded: hf.Loaded
) -> Learner:
  """Builds the devices' side, starting from the loaded parameters."""
  mesh = sharding.make_mesh(**config.mesh)
  tx, frozen = named(config.optimizer, 'arl.train'), config.updates.frozen
  params = jax.tree.map(jnp.copy, loaded.params)  # updates donate their own
  if made.needs & {'value', 'old_value'}:
    params = heads.with_value_head(params, loaded.sizes.width)
  forward = forward_lib.make(
    loaded.model,
    temperature=config.rollout.temperature,
    chunk=config.model.logit_chunk,
  )
  if frozen:
    tx = optimizers.except_for(tx, frozen)
    forward = forward_lib.without(forward, frozen)
  on_mesh = {'microbatch': config.updates.microbatch, 'mesh': mesh}
  return Learner(
    mesh=mesh,
    method=made,
    state=sharding.shard_params(state.create(params, tx), mesh),
    ref_params=sharding.shard_params(loaded.params, mesh)
    if 'ref_logp' in made.needs
    else None,
    score=score.make_score(forward, made.needs, **on_mesh),
    credit=jax.jit(made.credit),
    step=step_lib.make_train_step(forward, made, tx, **on_mesh),
    rows=rows_of(config),
  )


def check(config: ml_collections.ConfigDict) -> types.Method:
  """Checks all that can be checked without a model, and builds the method.

  Raises:
    ValueError, TypeError: a setting that cannot work, with the fix.
  """
  settings.check(config, settings.TRAIN)
  check_sampling(config)
  _check_numbers(config)
  made = method(config.method)
  check_needs(made, config.method.name)
  named(config.optimizer, 'arl.train')
  names.resolve(config.prompts.select, 'arl.prompts')
  names.resolve(config.rollout.strategy, 'arl.rollout')
  mesh = sharding.make_mesh(**config.mesh)
  sharding.check_rows(config.updates.microbatch, mesh)
  return made


def task_stream(
  config: ml_collections.ConfigDict, env: base.Env
) -> Callable[[int], list[episode.Task]]:
  """The training tasks of each step."""
  return source.shuffled(
    functools.partial(env.task, base.TRAIN),
    size=config.prompts.size,
    batch=config.prompts.batch,
    seed=config.seed,
  )


def task_position(
  config: ml_collections.ConfigDict, step: int
) -> dict[str, int]:
  """Where the stream of training tasks stands before a step."""
  return source.position(
    step, size=config.prompts.size, batch=config.prompts.batch
  )
