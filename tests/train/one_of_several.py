"""A process of a run by several: one_of_several.py SETTINGS, as JSON."""

import json
import os
import signal
import sys
from collections.abc import Callable

import jax
import tiny

from arl.train import loop, processes


def dying(at: int):
  """The letters, where one process ends in its so manieth action."""
  return _meeting(at, lambda: os._exit(3))


def interrupted(at: int):
  """The letters, where one process is told to stop in that action."""
  return _meeting(at, lambda: os.kill(os.getpid(), signal.SIGINT))


def _meeting(at: int, what: Callable[[], None]):
  env, left = tiny.letters(), [at]

  def step(state, text):
    left[0] -= 1
    if not left[0] and jax.process_index() == 1:
      what()
    return env.step(state, text)

  return env._replace(step=step)


def main(told: dict) -> None:
  config = tiny.config(told['model'], **told['blocks'])
  where = told['coordinator'], told['processes'], told['process']
  with processes.joined(*where):
    loop.train(config, told['workdir'])


if __name__ == '__main__':
  main(json.loads(sys.argv[1]))
