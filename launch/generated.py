"""Files that are made from the code: written, or only compared with --check."""

import pathlib
from collections.abc import Callable, Mapping

from absl import app, flags

_CHECK = flags.DEFINE_bool('check', False, 'Write nothing; 1 if out of date.')
_ROOT = flags.DEFINE_string(
  'root', str(pathlib.Path(__file__).parents[1]), 'The folder of the project.'
)


def main(
  argv: list[str],
  made: Callable[[pathlib.Path], Mapping[pathlib.Path, str]],
  what: str,
  command: str,
) -> int:
  """Writes files that are out of date; gives the status to exit with.

  Args:
    argv: of the command, which takes flags alone.
    made: folder of the project -> what each file should hold.
    what: the files are about, for messages.
    command: that writes them.
  """
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  stale = 0
  for path, text in made(pathlib.Path(_ROOT.value)).items():
    if path.exists() and path.read_text(encoding='utf-8') == text:
      continue
    stale = 1
    if _CHECK.value:
      print(f'{path}: the {what} are out of date: {command}')
      continue
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding='utf-8')
    print(f'wrote the {what} into {path}')
  return stale if _CHECK.value else 0
