"""The quickstart with tools that take their time, rolled out in three ways.

A config and the environment that it names. A training step of the environment
takes 50 to 500 ms, drawn from the episode so far, so that runs that ask the
same wait as long; held-out tasks are answered at once, since evaluation is not
what is measured.

Arguments: model=DIR; way=NAME, one of WAYS; quick.
"""

import hashlib
import time

from arl.envs import base, tools
from experiments import asynchronous, common

SECONDS = (0.05, 0.5)
WAYS: dict[str, dict] = {
  'plain': {'rollout.strategy': 'strategies.multi_turn'},
  'own_pace': {},
  'ahead': {
    'rollout.ahead': 3,
    'rollout.window': 96,
    'prompts.in_flight': 48,
  },
}


def make(
  *, max_hops: int, guess: float, fault: float, least: float, most: float
) -> base.Env:
  """The environment of the quickstart, whose training steps take seconds.

  Args:
    max_hops: as of `tools.make`, and so the next two.
    guess: see there.
    fault: see there.
    least: seconds that a step takes at least.
    most: seconds that it takes at most.
  """
  inner = tools.make(max_hops=max_hops, guess=guess, fault=fault)

  def step(state, text):
    if f'/{base.TRAIN}/' in f'/{state.task.id}/':
      time.sleep(least + (most - least) * _drawn(state, text))
    return inner.step(state, text)

  return inner._replace(step=step)


def _drawn(state: tools.State, text: str) -> float:
  """Evenly from 0 to 1, by the task and what has happened."""
  known = repr((state.task.id, state.turns, state.last, text))
  digest = hashlib.sha256(known.encode()).digest()
  return int.from_bytes(digest[:8], 'big') / 2**64


def get_config(arg: str | None = None):
  chosen = common.parse(
    arg, model='runs/quickstart/sft/final', way='ahead', quick=False
  )
  if chosen['way'] not in WAYS:
    raise ValueError(
      f'config argument way={chosen["way"]}: known are {", ".join(WAYS)}.'
    )
  quick = ',quick' if chosen['quick'] else ''
  config = asynchronous.get_config(
    f'model={chosen["model"]},correction=none{quick}'
  )
  config.method = asynchronous.CORRECTIONS['tis']
  config.env = {
    **config.env.to_dict(),
    'name': 'benchmarks.slow_tools.make',
    'least': SECONDS[0],
    'most': SECONDS[1],
  }
  config.update_from_flattened_dict(WAYS[chosen['way']])
  if config.rollout.ahead and not chosen['quick']:  # a slot for each episode
    config.engine.slots = config.prompts.in_flight * config.prompts.samples
  config.eval.update(every=config.steps, tasks=8, final_tasks=8)
  return config
