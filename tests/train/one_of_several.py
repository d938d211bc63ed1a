"""A process of a run by several: one_of_several.py SETTINGS, as JSON."""

import json
import os
import sys

import jax
import tiny

from arl.train import loop, processes


def dying(at: int):
  """The letters, where one process ends in its so manieth action."""
  env, left = tiny.letters(), [at]

  def step(state, text):
    left[0] -= 1
    if left[0] < 0 and jax.process_index() == 1:
      os._exit(3)
    return env.step(state, text)

  return env._replace(step=step)


def main(told: dict) -> None:
  config = tiny.config(told['model'], **told['blocks'])
  where = told['coordinator'], told['processes'], told['process']
  with processes.joined(*where):
    loop.train(config, told['workdir'])


if __name__ == '__main__':
  main(json.loads(sys.argv[1]))
