"""How a command that computes begins: quiet logs, and compiled code kept.

What JAX compiles is kept in a folder of this user, so that the next run of the
same shapes begins at once. `JAX_COMPILATION_CACHE_DIR` names another folder;
with `JAX_ENABLE_COMPILATION_CACHE=false` nothing is kept.
"""

import hashlib
import os
import pathlib
import platform
from collections.abc import Callable, Sequence

import jax
from absl import logging
from ml_collections import config_flags

from arl import command
from launch import memory

_MOST = 4 * 2**30  # bytes kept; what was unused for longest goes first
_LEAST = 0.1  # seconds that are worth keeping


def run(
  main: Callable[[list[str]], object],
  define: Callable[[], object],
  required: Sequence[str],
) -> None:
  """Runs a command, see `command.run`."""

  def begin(arguments: list[str]) -> object:
    logging.set_verbosity(logging.WARNING)  # orbax tells every step at INFO
    keep_compiled()
    memory.keep()
    return main(arguments)

  command.run(begin, define, required)


def define_config(
  name: str = 'config',
  text: str = 'The experiment: FILE.py, or FILE.py:ARGUMENT, where its'
  ' docstring says what the argument may be. --config.KEY=VALUE changes a'
  ' setting.',
) -> None:
  """Defines the flag of a config; its value is a locked ConfigDict."""
  config_flags.DEFINE_config_file(name, None, text, lock_config=True)


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
