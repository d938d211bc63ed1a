"""Files that are made from the code: written, or only compared with --check."""

import pathlib
from collections.abc import Callable, Mapping

from absl import app, flags

from arl import command

Made = Mapping[pathlib.Path, str]


def write(made: Made, what: str, how: str, *, check: bool) -> int:
  """Writes files that are out of date; gives the status to exit with.

  Args:
    made: what each file should hold.
    what: the files are about, for messages.
    how: the command that writes them.
    check: write nothing; 1 if one is out of date.
  """
  stale = 0
  for path, text in made.items():
    if path.exists() and path.read_text(encoding='utf-8') == text:
      continue
    stale = 1
    if check:
      print(f'{path}: the {what} are out of date: {how}')
      continue
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding='utf-8')
    print(f'wrote the {what} into {path}')
  return stale if check else 0


def run(made: Callable[[pathlib.Path], Made], what: str, how: str) -> None:
  """Runs a command that writes files, given the folder of the project."""

  def main(argv: list[str]) -> int:
    if len(argv) > 1:
      raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
    files = made(pathlib.Path(flags.FLAGS.root))
    return write(files, what, how, check=flags.FLAGS.check)

  command.run(main, _define)


def _define() -> None:
  root = str(pathlib.Path(__file__).parents[1])
  flags.DEFINE_bool('check', False, 'Write nothing; 1 if out of date.')
  flags.DEFINE_string('root', root, 'The folder of the project.')
