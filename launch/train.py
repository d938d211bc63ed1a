"""Trains a policy: python -m launch.train --config=FILE --workdir=DIR.

Choices that set several things go into the config's argument, after a colon;
single settings are overridden by path:

  python -m launch.train --config=experiments/quickstart.py:model=DIR \
    --config.method.high=0.3 --workdir=runs/mine

Run it again with the same arguments to resume.
"""

from absl import app, flags
from ml_collections import config_flags

from arl.train import loop
from launch import start

_CONFIG = config_flags.DEFINE_config_file(
  'config', None, 'The experiment: FILE.py or FILE.py:ARGUMENT.',
  lock_config=True,
)  # fmt: skip
_WORKDIR = flags.DEFINE_string(
  'workdir', None, 'Where the run is written, and resumed from.'
)
_PROFILE = flags.DEFINE_integer(
  'profile', 0, 'Writes a trace of so many steps, after the first, to'
  ' WORKDIR/profile, for XProf or Perfetto.', lower_bound=0,
)  # fmt: skip


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  loop.train(_CONFIG.value, _WORKDIR.value, _PROFILE.value)


def run() -> None:
  start.run(main, required=('config', 'workdir'))


if __name__ == '__main__':
  run()
