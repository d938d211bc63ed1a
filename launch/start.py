"""How a command that computes begins: quiet logs, and compiled code kept.

What it refuses ends it with a sentence and status 2; `ARL_TRACEBACK=1` shows
where in the code. Anything else that goes wrong shows that by itself.

What JAX compiles is kept in a folder of this user, so that the next run of the
same shapes begins at once. `JAX_COMPILATION_CACHE_DIR` names another folder;
with `JAX_ENABLE_COMPILATION_CACHE=false` nothing is kept.
"""

import hashlib
import linecache
import os
import pathlib
import platform
import sys
import traceback
from collections.abc import Callable, Sequence

import jax
from absl import app, flags, logging

_MOST = 4 * 2**30  # bytes kept; what was unused for longest goes first
_LEAST = 0.1  # seconds that are worth keeping
_REFUSALS = (ValueError, TypeError, FileExistsError, FileNotFoundError)
_OURS = [str(pathlib.Path(__file__).parents[1] / name) + os.sep
         for name in ('arl', 'experiments', 'launch')]  # fmt: skip


def run(main: Callable[[list[str]], object], required: Sequence[str]) -> None:
  """Runs a command whose flags are defined.

  Args:
    main: takes the arguments that are no flags.
    required: the flags that must be given.
  """
  flags.mark_flags_as_required(required)

  def begin(arguments: list[str]) -> object:
    logging.set_verbosity(logging.WARNING)  # orbax tells every step at INFO
    keep_compiled()
    return main(arguments)

  try:
    app.run(begin, flags_parser=_parse)
  except Exception as error:
    said = refusal(error)
    if said is None or os.environ.get('ARL_TRACEBACK'):
      raise
    print(f'error: {said}', file=sys.stderr)
    sys.exit(2)


def refusal(error: Exception) -> str | None:
  """What to say of an error that code of this project raised on purpose.

  None for one that happened to it. A key that a config lacks, and a config that
  cannot be read, are refused by the library of configs.
  """
  at = traceback.extract_tb(error.__traceback__)[-1]
  if 'ml_collections' in at.filename and isinstance(error, AttributeError):
    return f'the config has no key {_words(error.args[0])}'
  if 'ml_collections' in at.filename and isinstance(error, OSError):
    return str(error)
  line = linecache.getline(at.filename, at.lineno or 0).strip()
  ours = at.filename.startswith(tuple(_OURS)) and line.startswith('raise ')
  return str(error) if ours and isinstance(error, _REFUSALS) else None


def _parse(arguments: list[str]) -> list[str]:
  """The arguments that are no flags; what the flags refuse ends the command."""
  try:
    return flags.FLAGS(arguments)
  except flags.Error as error:
    if os.environ.get('ARL_TRACEBACK'):
      raise
    # A config's own refusal comes at the end of a traceback, as text.
    said = str(error).strip().splitlines()[-1].strip()
    print(f'error: {said.removeprefix("ValueError: ")}', file=sys.stderr)
    sys.exit(2)


def _words(error: object) -> str:
  """What a KeyError says, on one line."""
  said = error.args[0] if isinstance(error, KeyError) else error
  return '. '.join(str(said).splitlines())


def keep_compiled() -> None:
  """Keeps what is compiled, unless the user named a folder or cannot write."""
  if jax.config.jax_compilation_cache_dir:
    return
  folder = kept_in()
  try:
    folder.mkdir(parents=True, exist_ok=True)
    writable = os.access(folder, os.W_OK)
  except OSError:
    writable = False
  if not writable:
    logging.warning('%s cannot be written: nothing compiled is kept.', folder)
    return
  jax.config.update('jax_compilation_cache_dir', str(folder))
  jax.config.update('jax_compilation_cache_max_size', _MOST)
  jax.config.update('jax_persistent_cache_min_compile_time_secs', _LEAST)


def kept_in() -> pathlib.Path:
  """The folder of what this kind of machine compiled.

  Code for one processor may not run on another that shares the home folder.
  """
  base = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
  return pathlib.Path(base) / 'arl' / f'compiled-{_processor()}'


def _processor() -> str:
  """Stands for the kind of processor and what it can do."""
  told = [platform.machine()]
  listed = pathlib.Path('/proc/cpuinfo')
  if listed.is_file():
    kinds = ('model name', 'flags', 'Features')
    lines = listed.read_text(errors='replace').splitlines()
    told += sorted({line for line in lines if line.startswith(kinds)})
  return hashlib.sha256('\n'.join(told).encode()).hexdigest()[:12]
