"""Who still learns on long chains: credit methods against sampled tokens.

  python -m experiments.studies.chains [--quick] [--workdir=DIR]

Chains of ever more locked doors with one reward at the end (`keydoor.make`),
played by a policy that is a table (`experiments.studies.tabular`), from a start
that follows the oracle half of the time. Every method has its own rollouts and
credit, the same surrogate, optimizer and learning rate, and as many sampled
tokens, those of branches that are not trained on included. Prints a JSON object
a line and rewrites experiments/results/chains.md and chains.png.
"""

import concurrent.futures
import functools
import json
import math
import multiprocessing
import pathlib
from typing import Any, NamedTuple

import jax
import ml_collections
import numpy as np

from arl import episode, names
from arl.envs import base
from arl.evaluate import summary
from arl.report import curves
from arl.rollout import engine as engine_lib
from arl.rollout import strategies
from arl.train import batch, build, fills, optimizers, score, sharding, state
from arl.train import step as step_lib
from experiments.studies import runs, tabular
from experiments.studies import summary as page

LENGTHS = (2, 4, 8, 12)
SKILL = 0.5
EPISODES = 25 * 128  # of full length, whose tokens are the budget
LR = 0.1
HELD_OUT = 64, 256  # tasks while it learns, and at the end
POINTS = 10  # of a curve, after its beginning


class Entrant(NamedTuple):
  """A method and how it rolls out.

  Attributes:
    method: its block.
    strategy: of its rollouts.
    prompts: of a batch.
    samples: of a prompt.
  """

  method: dict[str, Any]
  strategy: str = 'strategies.multi_turn'
  prompts: int = 16
  samples: int = 8


_PLAIN = {'clip': 0.2, 'kl_coef': 0.0}
_STATES = {'gamma': 0.95, 'coef': 1.0, **_PLAIN}
_GRPO = {'name': 'grpo.grpo', **_PLAIN}
METHODS = {
  'GRPO': Entrant(_GRPO),
  'GiGPO': Entrant({'name': 'states.gigpo', **_STATES}),
  'G2PO': Entrant({'name': 'states.g2po', **_STATES}),
  'StepPO': Entrant(
    {
      'name': 'agentic.steppo',
      'gamma': 0.99,
      'lam': 0.95,
      'low': 0.2,
      'high': 0.2,
      'kl_coef': 0.0,
      'value_coef': 0.5,
    }
  ),
  'Tree-GRPO': Entrant(
    {'name': 'trees.tree_grpo', **_PLAIN}, 'branching.two_trees'
  ),
  'VinePPO': Entrant(
    {'name': 'critics.vineppo', **_PLAIN}, 'vine.three', 16, 1
  ),
  'RRPO': Entrant({'name': 'resets.rrpo', 'base': _GRPO}, 'resets.rrpo'),
  'SRPO, told by an oracle': Entrant(
    {'name': 'resets.srpo', 'base': _GRPO}, 'resets.srpo_oracle'
  ),
}


def limits(length: int) -> strategies.Limits:
  """Twice the turns of the oracle; a turn and what is seen are a token each."""
  turns = 10 * length
  return strategies.Limits(turns, 1, 2 * turns + 2, turns)


def learner(entrant: Entrant, params: Any) -> build.Learner:
  """The devices' side of a run of a table."""
  method = build.method(ml_collections.ConfigDict(entrant.method))
  mesh = sharding.make_mesh(data=1, fsdp=1)
  tx = optimizers.adamw(
    lr=LR, warmup=0, decay=0, b1=0.9, b2=0.99, weight_decay=0.0, max_norm=1e6
  )
  rows = entrant.prompts * entrant.samples
  on = {'microbatch': rows, 'mesh': mesh}
  return build.Learner(
    mesh=mesh,
    method=method,
    state=sharding.shard_params(state.create(params, tx), mesh),
    others={},
    score=score.make_score(tabular.forward, method.needs, others={}, **on),
    credit=jax.jit(method.credit),
    step=step_lib.make_train_step(tabular.forward, method, tx, **on),
    rows=rows,
    block=0,
  )


def learn(entrant: Entrant, length: int, seed: int, budget: int) -> list[dict]:
  """Success on held-out tasks by sampled tokens, until they are spent."""
  env, chat = tabular.chain(length), tabular.chat(tabular.states(length))
  params = tabular.start(length, SKILL)
  engine = tabular.Engine(params, seed)
  made = learner(entrant, params)
  now, step, told = made.state, 0, []
  strategy = names.resolve(entrant.strategy, 'arl.rollout')
  plan = functools.partial(
    strategies.Plan, sampling=engine_lib.Sampling(), limits=limits(length)
  )

  def tell(first: int, count: int) -> None:
    spent = engine.sampled
    tasks = [env.task(base.HELD_OUT, first + i) for i in range(count)]
    there = plan(1, path=(1, 0))
    found = strategies.multi_turn(engine, env, chat, tasks, there)
    engine.sampled = spent
    success = summary.success(found)['success']
    told.append({'tokens': spent, 'success': success, 'batches': step})

  tell(0, HELD_OUT[0])
  while engine.sampled < budget:
    first = (seed * 10_000 + step) * entrant.prompts
    tasks = [env.task(base.TRAIN, first + i) for i in range(entrant.prompts)]
    there = plan(entrant.samples, path=(0, step))
    episodes = strategy(engine, env, chat, tasks, there)
    now = update(made, now, episodes, length)
    step += 1
    engine.set_params(now.params, step)
    if engine.sampled >= len(told) * budget / POINTS:
      tell(0, HELD_OUT[0])
  tell(*HELD_OUT)
  return told


def update(made: build.Learner, now: state.TrainState, episodes, length: int):
  """The state after a batch was learnt from."""
  there = limits(length)
  groups = episode.groups([e for e in episodes if episode.graded(e)])
  data = batch.make(
    made,
    now.params,
    batch.updates(groups, 1),
    width=there.context,
    max_turns=there.max_turns,
    from_loop=functools.partial(
      fills.from_loop, seed=0, step=0, steps=1, knobs={}
    ),
  )
  now, _ = made.step(now, *batch.update(data, 0, made.rows))
  return now


def cell(folder: str, name: str, length: int, seed: int) -> list[dict]:
  """What `learn` tells, from a file once it is there."""
  path = pathlib.Path(folder, f'{name} {length} {seed}.json')
  if not path.exists():
    episodes = EPISODES // (25 if 'quick' in folder else 1)
    told = learn(METHODS[name], length, seed, episodes * 10 * length)
    path.write_text(json.dumps(told))
  return json.loads(path.read_text())


def tokens_to(told: list[dict], success: float) -> float:
  """Sampled tokens at which a curve first reached a success; nan if never."""
  at = [row['tokens'] for row in told if row['success'] >= success]
  return at[0] if at else math.nan


def tell(name: str, length: int, curves_of: list[list[dict]]) -> str:
  """Prints what a method reached at a length; its cell of the table."""
  final = [told[-1]['success'] for told in curves_of]
  value, interval = runs.mean(final)
  line = f'chains/{length}/{name}/success'
  runs.line(line, value, 'success rate', '', runs.seeds(), interval)
  text = runs.percent(value, interval)
  half = [tokens_to(told, 0.5) for told in curves_of]
  known = not any(map(math.isnan, half))
  line = f'chains/{length}/{name}/tokens_to_half'
  value, interval = runs.mean(half) if known else (None, None)
  runs.line(line, value, 'tokens', '', runs.seeds(), interval)
  return f'{text}; {value / 1000:.0f} k' if known else f'{text}; never'


def on_grid(told: list[dict], budget: int) -> list[dict]:
  """A curve at even numbers of sampled tokens, for pictures."""
  grid = [round(i * budget / POINTS) for i in range(POINTS + 1)]
  tokens, success = (
    [row[k] for row in told[:-1]] for k in ('tokens', 'success')
  )
  found = np.interp(grid, tokens, success)
  return [{'step': x, 'success': y} for x, y in zip(grid, found.tolist())]


def main(argv: list[str]) -> None:
  del argv
  folder, lengths = (
    runs.root() / 'chains',
    LENGTHS[:2] if runs.quick() else LENGTHS,
  )
  folder.mkdir(parents=True, exist_ok=True)
  wanted = [
    (str(folder), name, length, seed)
    for length in lengths
    for seed in runs.seeds()
    for name in METHODS
  ]
  context = multiprocessing.get_context('spawn')
  with concurrent.futures.ProcessPoolExecutor(2, context) as pool:
    found = dict(zip(wanted, pool.map(cell, *zip(*wanted))))
  by = {
    (name, length): [
      found[str(folder), name, length, seed] for seed in runs.seeds()
    ]
    for name in METHODS
    for length in lengths
  }
  body = [
    [name, *(tell(name, length, by[name, length]) for length in lengths)]
    for name in METHODS
  ]
  if runs.quick():
    return
  header = ['method', *(f'{length} doors' for length in lengths)]
  runs.write_table(runs.RESULTS / 'chains.md', header, body, runs.seeds())
  curves.panels(
    {
      f'{length} doors': {
        name: [
          on_grid(told, EPISODES * 10 * length) for told in by[name, length]
        ]
        for name in METHODS
      }
      for length in lengths
    },
    'success',
    runs.RESULTS / 'chains.png',
    across='sampled tokens',
  )
  page.write()


if __name__ == '__main__':
  runs.start(main)
