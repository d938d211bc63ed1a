"""How a command begins and ends: its flags, its help, what it says of errors.

A command defines its flags in a function that it gives to `run`, never where
its module is loaded. So all modules can be imported beside each other, and the
flags that there are belong to the command that runs.

What it refuses ends it with a sentence and status 2, and what it gives up on
the way, or a disk that takes no more, with a sentence and status 1;
`ARL_TRACEBACK=1` shows where in the code. Anything else that goes wrong shows
that by itself.
"""

import errno
import linecache
import os
import pathlib
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence

from absl import app, flags

_HELP = ('-h', '-help', '--help')
_WIDTH = 80
_REFUSALS = (
  ValueError,
  TypeError,
  ImportError,
  FileExistsError,
  FileNotFoundError,
)
_GIVEN_UP = (RuntimeError, ArithmeticError)
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_PREFIX = re.compile('^(ValueError|TypeError): ')
_NO_FILE = re.compile(r"No such file or directory: '([^']*)'")
_BACKENDS = (
  'install JAX for that kind of device, as with arl[gpu] or arl[tpu], or set'
  ' JAX_PLATFORMS=cpu.'
)
_ROOT = pathlib.Path(__file__).parents[1]
_TREES = ('arl', 'benchmarks', 'experiments', 'launch')


def run(
  main: Callable[[list[str]], object],
  define: Callable[[], object] = lambda: None,
  required: Sequence[str] = (),
) -> None:
  """Runs a command.

  Args:
    main: takes the arguments that are no flags; what it gives is the status.
    define: defines the flags.
    required: the flags that must be given.
  """
  define()
  try:
    app.run(main, flags_parser=lambda words: parse(words, required))
  except Exception as error:
    refused, failed = refusal(error), failure(error)
    said = refused or failed
    if not said or os.environ.get('ARL_TRACEBACK'):
      raise
    print(f'error: {said}', file=sys.stderr)
    sys.exit(2 if refused else 1)


def parse(words: Sequence[str], required: Sequence[str] = ()) -> list[str]:
  """The arguments that are no flags.

  Args:
    words: of the command line, the name of the program first.
    required: the flags that must be given.

  Raises:
    flags.Error: one is not given, is unknown, or cannot be what it is.
  """
  if any(word in _HELP for word in words):
    print(about(required))
    sys.exit(0)
  left = flags.FLAGS(words)
  lacking = [
    f'--{name}' for name in required if flags.FLAGS[name].value is None
  ]
  if lacking:
    raise flags.Error(f'give {" and ".join(lacking)}; --help says what it is.')
  return left


def about(required: Sequence[str] = ()) -> str:
  """What --help prints: the docstring of the command, then its own flags."""
  said = [(sys.modules['__main__'].__doc__ or '').strip()]
  own = [_shown(flag, flag.name in required) for flag in _own()]
  if own:
    said += ['', 'Flags, with what they are if not given:', '', *own]
  return '\n'.join(said)


def _own() -> Iterator[flags.Flag]:
  """The flags that this project defined, in that order."""
  for module, defined in flags.FLAGS.flags_by_module_dict().items():
    if module == sys.argv[0] or module.partition('.')[0] in _TREES:
      yield from defined


def _shown(flag: flags.Flag, required: bool) -> str:
  """A flag and what it means."""
  indent = ' ' * 6
  text = f'{flag.help} Has to be given.' if required else flag.help
  lines = textwrap.wrap(
    text, _WIDTH, initial_indent=indent, subsequent_indent=indent
  )
  return '\n'.join([f'  --{flag.name}{_default(flag.default)}', *lines])


def _default(value: object) -> str:
  """How a default is written; nothing for none, or a switch that is off."""
  if value is None or value is False or value == []:
    return ''
  if isinstance(value, list):
    return f'={",".join(map(str, value))}'
  return f'={value}' if value != '' else "=''"


def refusal(error: Exception) -> str | None:
  """What to say of an error that code of this project raised on purpose.

  None for one that happened to it. A key that a config lacks, and a config that
  cannot be read, are refused by the library of configs, and a kind of device
  that is not there by JAX.
  """
  if isinstance(error, flags.Error):
    # A config's own refusal comes at the end of a traceback, as text.
    return _PREFIX.sub('', str(error).strip().splitlines()[-1].strip())
  at = traceback.extract_tb(error.__traceback__)[-1]
  if 'ml_collections' in at.filename and isinstance(error, AttributeError):
    return _no_key(_words(error.args[0]))
  if 'ml_collections' in at.filename and isinstance(error, OSError):
    return _no_config(str(error))
  if at.filename.endswith('xla_bridge.py'):  # an assertion, or a RuntimeError
    wanted = os.environ.get('JAX_PLATFORMS', '')
    return f'JAX finds no device of JAX_PLATFORMS={wanted!r}; {_BACKENDS}'
  return str(error) if _on_purpose(error, _REFUSALS) else None


def failure(error: Exception) -> str | None:
  """What to say of an error that ended a command on its way.

  One that code of this project raised on purpose, or a disk that is full or
  cannot be written; None for any other.
  """
  if isinstance(error, OSError) and error.errno in _DISK:
    return (
      f'{error}; mend that, and run the same command again: a run goes on from'
      ' its newest checkpoint.'
    )
  return str(error) if _on_purpose(error, _GIVEN_UP) else None


def _on_purpose(error: Exception, kinds: tuple[type[Exception], ...]) -> bool:
  """Whether it is of these kinds and this project has a line that raises it."""
  at = traceback.extract_tb(error.__traceback__)[-1]
  line = linecache.getline(at.filename, at.lineno or 0).strip()
  homes = tuple(f'{_ROOT / tree}{os.sep}' for tree in _TREES)
  ours = at.filename.startswith(homes) and line.startswith('raise ')
  return ours and isinstance(error, kinds)


def _no_key(said: str) -> str:
  if "no attribute 'get_config'" in said:
    return (
      'the file of --config has no function get_config(arg);'
      ' experiments/quickstart.py shows one.'
    )
  return f'the config has no key {said}'


def _no_config(said: str) -> str:
  found = _NO_FILE.search(said)
  if not found:
    return said
  return (
    f'there is no config {found[1]}; give the path of a file such as'
    ' experiments/quickstart.py, from where the command is run.'
  )


def _words(error: object) -> str:
  """What an error says, on one line."""
  said = error.args[0] if isinstance(error, KeyError) else error
  return '. '.join(str(said).splitlines())
