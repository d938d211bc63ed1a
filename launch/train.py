r"""Trains a policy: python -m launch.train --config=FILE --workdir=DIR.

Choices that set several things go into the config's argument, after a colon;
single settings are overridden by path:

  python -m launch.train --config=experiments/quickstart.py:model=DIR \
    --config.method.high=0.3 --workdir=runs/mine

Run it again with the same arguments to resume.

Of several processes each gets the same arguments, the address of the first and
which it is; the folder is one that all see, and the mesh takes all devices:

  python -m launch.train --config=FILE --workdir=DIR --config.mesh.data=2 \
    --coordinator=HOST:9876 --processes=2 --process=0  # and so 1, elsewhere

Where JAX finds that out, as on a TPU slice or under SLURM, --coordinator=auto
is enough.
"""

from absl import app, flags

from arl.train import loop, processes
from launch import start


def define() -> None:
  """Defines the flags."""
  start.define_config()
  flags.DEFINE_string(
    'workdir', None, 'Where the run is written, and resumed from.'
  )
  flags.DEFINE_integer(
    'profile', 0, 'Writes a trace of so many steps, after the first, to'
    ' WORKDIR/profile, for XProf or Perfetto.', lower_bound=0,
  )  # fmt: skip
  flags.DEFINE_string(
    'coordinator', '', "HOST:PORT of the first of several processes, or 'auto'."
  )
  flags.DEFINE_integer('processes', 0, 'How many processes there are.', 0)
  flags.DEFINE_integer('process', -1, 'Which of them this is, from 0.')


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  given = flags.FLAGS
  with processes.joined(given.coordinator, given.processes, given.process):
    loop.train(given.config, given.workdir, given.profile)


def run() -> None:
  start.run(main, define, required=('config', 'workdir'))


if __name__ == '__main__':
  run()
