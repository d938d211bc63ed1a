"""From a config to the parts of a run, checked before anything is sampled."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
from jax.sharding import Mesh

from arl import columns as columns_lib
from arl import methods, names, ranges, types
from arl.envs import base
from arl.methods import compose
from arl.models import functional, hf, teachers
from arl.rewards import composite, shaping
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import strategies
from arl.train import (
  adapters,
  blocks,
  checks,
  choosing,
  context,
  critic,
  engines,
  fills,
  flops,
  knobs,
  loading,
  optimizers,
  prefixes,
  processes,
  qk_clip,
  routing,
  score,
  settings,
  sharding,
  state,
  taught,
  turning,
  weighting,
)
from arl.train import forward as forward_lib
from arl.train import step as step_lib


class World(NamedTuple):
  """The host's side of a run: who acts, in what, on which problems.

  Attributes:
    tokenizer: of the model.
    chat: how the model is spoken to.
    loaded: the model, its parameters and its sizes.
    env: the environment.
    engine: the sampler.
    limits: budgets of an episode.
    stop_text: texts that end an action, beside the chat's stop ids.
    strategy: how episodes that are not trained on are rolled out.
  """

  tokenizer: Any
  chat: chat_lib.Chat
  loaded: hf.Loaded
  env: base.Env
  engine: engine_lib.Engine
  limits: strategies.Limits
  stop_text: tuple[str, ...]
  strategy: Callable


class Learner(NamedTuple):
  """The devices' side of a run.

  Attributes:
    mesh: where arrays live.
    method: the objective.
    state: parameters and optimizer at the start.
    others: parameters of further models, by the column that they fill.
    score: adds columns from forward passes, jitted.
    credit: adds advantages and the like, jitted.
    step: one update, in two jitted programs.
    rows: rows of one update.
    block: rows that hold whole groups, where something needs them; else 0.
    replay: of the experts that the sampler chose; None where the trainer routes
      by itself.
    taught: what a step takes by keyword: a teacher's parameters, or nothing.
    prefixes: whether sequences compute their 'own' beginnings, or 'shared'.
    trains: what of the policy is trained.
  """

  mesh: Mesh
  method: types.Method
  state: state.TrainState
  others: dict[str, Any]
  score: Callable
  credit: Callable
  step: step_lib.Step
  rows: int
  block: int
  replay: routing.Replay | None = None
  taught: dict[str, Any] = {}
  prefixes: str = prefixes.OWN
  trains: flops.Trained = flops.WHOLE


def named(block: ml_collections.ConfigDict, home: str) -> Any:
  """Calls the function that a block names with the block's other keys."""
  keywords = block.to_dict()
  name = keywords.pop('name')
  function = names.resolve(name, home)
  names.check_keywords(name, function, keywords)
  ranges.check(name, function, keywords)
  return function(**keywords)


def method(block: ml_collections.ConfigDict) -> types.Method:
  """The method that a block describes."""
  keywords = block.to_dict()
  made = methods.make(keywords.pop('name'), **keywords)
  if isinstance(made, compose.Objective | compose.Term):
    made = compose.method(made)
  return made


def limits(config: ml_collections.ConfigDict) -> strategies.Limits:
  """The budgets of an episode."""
  r = config.rollout
  return strategies.Limits(
    r.max_turns,
    r.turn_tokens,
    r.context,
    r.response_tokens,
    r.seconds or math.inf,
  )


def terms_of(
  block: ml_collections.ConfigDict,
) -> dict[str, tuple[float, shaping.Term]]:
  """What is added to rewards, by name: weight and function.

  Raises:
    ValueError: a term without a weight, or a cap out of its range.
  """
  composite.check_cap(block.cap)
  made = {}
  for name, term in block.terms.items():
    keywords = term.to_dict()
    weight = keywords.pop('weight', None)
    if weight is None:
      raise ValueError(f'config.reward.terms.{name}: give it a weight.')
    function = named(ml_collections.ConfigDict(keywords), 'arl.rewards')
    made[name] = float(weight), function
  return made


def world(config: ml_collections.ConfigDict) -> World:
  """Builds the host's side, with the parameters that training starts from.

  Raises:
    ValueError, TypeError: a setting that cannot work, with the fix.
  """
  env = named(config.env, 'arl.envs')
  mesh, rules = sharding.mesh_of(config)
  place = sharding.place_of(mesh, rules) if mesh.size > 1 else None
  loaded, tokenizer = loading.load_model(config.model, config.seed, place)
  role = config.rollout.observation_role
  engine = engines.make(config, loaded, tokenizer)
  chat = chat_lib.chat(tokenizer, observation_role=role)
  texts = (config.rollout.stop_text,) if config.rollout.stop_text else ()
  strategy = names.resolve(config.eval.strategy, 'arl.rollout')
  strategy = processes.shared(strategy)
  return World(
    tokenizer, chat, loaded, env, engine, limits(config), texts, strategy
  )


def learner(
  config: ml_collections.ConfigDict, made: types.Method, loaded: hf.Loaded
) -> Learner:
  """Builds the devices' side, starting from the loaded parameters."""
  mesh, rules = sharding.mesh_of(config)
  layout, place = sharding.layout(mesh), sharding.place_of(mesh, rules)
  replay = routing.replay(config.updates.routing, loaded.sizes)
  tx = named(config.optimizer, 'arl.train')
  params = jax.tree.map(jnp.copy, loaded.params)  # updates donate their own
  if made.needs & fills.CRITICS:
    params = critic.add(params, config.model, loaded.sizes.width, place)
  params, frozen = adapters.add(params, config)
  params = sharding.shard_params(params, mesh, rules)  # what was added
  make = functools.partial(
    forward_lib.make,
    temperature=config.rollout.temperature,
    chunk=config.model.logit_chunk,
  )
  others, forwards, told = {}, {}, {}
  make_own = make
  for name, models in loading.further(config, made, loaded, place).items():
    others[name] = sharding.shard_params(
      tuple(m.params for m in models), mesh, rules
    )
    lying = [functional.placed(m.model, layout) for m in models]
    forwards[name] = context.split(
      taught.routed([make(model) for model in lying]), layout
    )
    if name == 'teacher_logp' and made.needs & teachers.DIVERGENCES:
      make_own = functools.partial(make, teacher=lying[0])
      told = {'taught': others[name][0]}
  forward = make_own(functional.placed(loaded.model, layout))
  forward = context.split(forward, layout)
  if frozen:
    tx = optimizers.except_for(tx, frozen)
    forward = forward_lib.without(forward, frozen)
  tx = tx._replace(init=sharding.born(tx.init, place))
  on_mesh = {'microbatch': config.updates.microbatch, 'mesh': mesh}
  clip, tau = None, config.updates.qk_clip
  if tau:
    clip = qk_clip.make(loaded.model, tau=tau, frozen=frozen, **on_mesh)
  return Learner(
    mesh=mesh,
    method=made,
    state=sharding.shard_params(
      state.create(
        params,
        tx,
        config.rollout.lag,
        averaged=bool(config.model.average),
      ),
      mesh,
      rules,
    ),
    others=others,
    score=score.make_score(forward, made.needs, others=forwards, **on_mesh),
    credit=jax.jit(made.credit),
    step=step_lib.make_train_step(
      forward, made, tx, clip=clip, rules=rules, **on_mesh
    ),
    rows=blocks.rows(config, made),
    block=blocks.whole(config, made),
    replay=replay,
    taught=told,
    prefixes=config.updates.prefixes,
    trains=flops.trained(params, loaded.sizes, frozen),
  )


def check(config: ml_collections.ConfigDict) -> types.Method:
  """Checks all that can be checked without a model, and builds the method.

  Raises:
    ValueError, TypeError: a setting that cannot work, with the fix.
  """
  settings.check(config, settings.TRAIN)
  checks.check_sampling(config)
  checks.check_engine(config)
  checks.check_teacher(config)
  checks.check_numbers(config)
  prefixes.check(config)
  adapters.check(config)
  context.check(config)
  processes.check(config)
  made = method(config.method)
  checks.check_whole(made, config)
  named(config.optimizer, 'arl.train')
  knobs_of(config)
  terms_of(config.reward)
  names.resolve(config.prompts.select, 'arl.prompts')
  strategy = names.resolve(config.rollout.strategy, 'arl.rollout')
  env = named(config.env, 'arl.envs')
  checks.check_strategy(strategy, env, config.rollout.strategy)
  checks.check_scorer(strategy, config)
  checks.check_spread(config, blocks.most_of(strategy))
  evaluates = names.resolve(config.eval.strategy, 'arl.rollout')
  turning.check(config, strategy, evaluates)
  blocks.check(config, made, strategy)
  choosing.check(config, env)
  fills.check_used(made, config)
  there = fills.filled(config, env, strategy)
  fills.check(made, config.method.name, there)
  fills.check_replay(config, there)
  mesh, _ = sharding.mesh_of(config)
  sharding.check_rows(config.updates.microbatch, mesh)
  return weighting.weighed(made) if weighting.wanted(config) else made


def knobs_of(config: ml_collections.ConfigDict) -> dict[str, knobs.Knob]:
  """The knobs of a run, by the column that each fills.

  Raises:
    ValueError: a knob for what is no column of the loop.
  """
  wanted = columns_lib.filled_by(columns_lib.LOOP) - fills.OWN | turning.NAMES
  for name in config.knobs:
    if name not in wanted:
      raise ValueError(
        f'config.knobs.{name}: {name!r} is no knob{names.suggest(name, wanted)}'
      )
  return {
    name: named(block, 'arl.train') for name, block in config.knobs.items()
  }
