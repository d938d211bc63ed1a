r"""Trains a policy and its reward model: python -m launch.corlhf --config=FILE.

  python -m launch.corlhf --config=experiments/corlhf.py:model=DIR \
    --workdir=runs/corlhf

A run that was stopped begins anew.
"""

from absl import app, flags

from arl.train import corlhf
from launch import start


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  corlhf.train(flags.FLAGS.config, flags.FLAGS.workdir)


def define() -> None:
  """Defines the flags."""
  start.define_config()
  flags.DEFINE_string('workdir', None, 'Where the run is written.')


if __name__ == '__main__':
  start.run(main, define, required=('config', 'workdir'))
